// The machine with an id, and the error for one that does not exist.
import { ComputeManagementClient } from "@azure/arm-compute";
import { ClientSecretCredential } from "@azure/identity";

const { AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, AZURE_SUBSCRIPTION_ID } = process.env;
const origin = process.env.GPUCLOUD_AZURE_ENDPOINT;
const credential = new ClientSecretCredential(AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, {
  authorityHost: origin,
  disableInstanceDiscovery: true,
});
const compute = new ComputeManagementClient(credential, AZURE_SUBSCRIPTION_ID, {
  endpoint: origin,
  credentials: { scopes: [`${origin}/.default`] },
  retryOptions: { maxRetries: 0 },
});

const words = process.argv[2].split("/");
const machine = await compute.virtualMachines.get(words[4], words.at(-1), { expand: "instanceView" });
const refusal = await compute.virtualMachines.get(words[4], "none").catch((error) => error);
console.log(
  JSON.stringify({
    id: machine.id,
    state: machine.instanceView.statuses.map(({ code }) => code).find((code) => code.startsWith("PowerState/")),
    box: machine.tags["gpucloud:box"],
    error: [refusal.code, refusal.statusCode],
  }),
);
