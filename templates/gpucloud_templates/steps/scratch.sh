#!/bin/bash
# Makes /scratch of the machine's local disks; cloud-init runs it at every boot, because they are blank after a stop.
# A mount of the image's is used (AWS's deep-learning images: /opt/dlami/nvme; Azure's older types: /mnt); otherwise the blank
# NVMe disks are, striped if there are several. Network disks (EBS, Azure's, Alibaba's) have other names of model.
# Whatever cannot be done leaves the box without /scratch of its own, and does not fail its boot.
set -u
exec >>/var/log/gpucloud/boot.log 2>&1
at=/scratch lib=/usr/local/lib/gpucloud profile=/etc/profile.d/gpucloud-scratch.sh disks=()
reuse() { mountpoint -q "$1" && mkdir -p "$1/scratch" && mount --bind "$1/scratch" $at; }
make() {
  for disk in $(lsblk -dnpo NAME,MODEL | grep nvme | grep -Ev 'Elastic Block|NVMe Accelerator' | cut -d' ' -f1); do
    [ "$(wipefs "$disk" && echo blank)" != blank ] || disks+=("$disk")
  done
  disk=${disks-}
  if [ ${#disks[@]} -gt 1 ]; then
    disk=/dev/md/scratch
    mdadm -V || { $lib/apt update && $lib/apt install mdadm; }
    mdadm -C $disk --run -l0 -n${#disks[@]} "${disks[@]}" || return
  fi
  [ "$disk" ] && mkfs.ext4 -qF -m0 -E nodiscard -L gpucloud-scratch "$disk" && mount "$disk" $at
}
install -dm1777 $at
mountpoint -q $at || reuse /opt/dlami/nvme || mount -L gpucloud-scratch $at 2>/dev/null || make || reuse /mnt || exit 0
chmod 1777 $at
[ -e $profile ] || for each in GPUCLOUD_SCRATCH= PIP_CACHE_DIR=/pip HF_HOME=/huggingface RCLONE_CACHE_DIR=/rclone; do
  echo "${each%%=*}=$at${each#*=}"
done | tee -a /etc/environment | sed 's/^/export /' >$profile
