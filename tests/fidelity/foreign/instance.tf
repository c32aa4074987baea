# An instance with a security group, an encrypted root disk and user data.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

provider "aws" {
  region = "us-east-1"
}

data "aws_ami" "newest" {
  most_recent = true
  owners      = ["amazon"]
  filter {
    name   = "architecture"
    values = ["x86_64"]
  }
}

data "aws_vpc" "default" {
  default = true
}

resource "aws_security_group" "ssh" {
  name        = "terraform"
  description = "of the fidelity tests"
  vpc_id      = data.aws_vpc.default.id
  ingress {
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = ["192.0.2.7/32"]
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_instance" "gpu" {
  ami                    = data.aws_ami.newest.id
  instance_type          = "g4dn.xlarge"
  vpc_security_group_ids = [aws_security_group.ssh.id]
  user_data              = "#!/bin/sh\ntrue\n"
  root_block_device {
    encrypted   = true
    volume_size = 100
    volume_type = "gp3"
  }
  tags = {
    Name = "terraform"
  }
}

output "id" {
  value = aws_instance.gpu.id
}
