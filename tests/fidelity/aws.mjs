// The instance with an id, and the error for one that does not exist.
import { DescribeInstancesCommand, EC2Client } from "@aws-sdk/client-ec2";

const ec2 = new EC2Client({ region: "us-east-1", maxAttempts: 1 });
const ask = (id) => ec2.send(new DescribeInstancesCommand({ InstanceIds: [id] }));

const [{ InstanceId, State, Tags }] = (await ask(process.argv[2])).Reservations[0].Instances;
const refusal = await ask("i-00000000000000000").catch((error) => error);
console.log(
  JSON.stringify({
    id: InstanceId,
    state: State.Name,
    box: Tags.find(({ Key }) => Key === "gpucloud:box").Value,
    error: [refusal.name, refusal.$metadata.httpStatusCode],
  }),
);
