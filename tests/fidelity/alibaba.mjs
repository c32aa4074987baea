// The instance with an id, and the error for one that does not exist, by the SDK of today.
import ecs from "@alicloud/ecs20140526";
import openapi from "@alicloud/openapi-client";

const { ALIBABA_CLOUD_ACCESS_KEY_ID, ALIBABA_CLOUD_ACCESS_KEY_SECRET } = process.env;
const { host } = new URL(process.env.GPUCLOUD_ALIBABA_ENDPOINT);
const client = new ecs.default(
  new openapi.Config({
    accessKeyId: ALIBABA_CLOUD_ACCESS_KEY_ID,
    accessKeySecret: ALIBABA_CLOUD_ACCESS_KEY_SECRET,
    endpoint: host,
    protocol: "http",
    regionId: "us-east-1",
  }),
);
const [id] = process.argv.slice(2);
const asked = new ecs.DescribeInstancesRequest({ regionId: "us-east-1", instanceIds: JSON.stringify([id]) });
const [instance] = (await client.describeInstances(asked)).body.instances.instance;
const missing = new ecs.DescribeInstanceAttributeRequest({ instanceId: "i-0" });
const refusal = await client.describeInstanceAttribute(missing).catch((error) => error);
console.log(
  JSON.stringify({
    id: instance.instanceId,
    state: instance.status,
    box: instance.tags.tag.find(({ tagKey }) => tagKey === "gpucloud:box").tagValue,
    error: [refusal.code, refusal.statusCode ?? refusal.data.statusCode],
  }),
);
