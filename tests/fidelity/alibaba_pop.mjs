// The instance with an id, and the error for one that does not exist, by the SDK before, with its signature.
import Core from "@alicloud/pop-core";

const { ALIBABA_CLOUD_ACCESS_KEY_ID, ALIBABA_CLOUD_ACCESS_KEY_SECRET } = process.env;
const client = new Core({
  accessKeyId: ALIBABA_CLOUD_ACCESS_KEY_ID,
  accessKeySecret: ALIBABA_CLOUD_ACCESS_KEY_SECRET,
  endpoint: process.env.GPUCLOUD_ALIBABA_ENDPOINT,
  apiVersion: "2014-05-26",
});
const ask = (action, values) =>
  client.request(action, { RegionId: "us-east-1", ...values }, { method: "POST", formatParams: false });

const [id] = process.argv.slice(2);
const [instance] = (await ask("DescribeInstances", { InstanceIds: JSON.stringify([id]) })).Instances.Instance;
const refusal = await ask("DescribeInstanceAttribute", { InstanceId: "i-0" }).catch((error) => error);
console.log(
  JSON.stringify({
    id: instance.InstanceId,
    state: instance.Status,
    box: instance.Tags.Tag.find(({ TagKey }) => TagKey === "gpucloud:box").TagValue,
    error: [refusal.data.Code, refusal.entry.response.statusCode],
  }),
);
