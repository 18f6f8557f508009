// Makes a webhook for a wallet, checks the signature of each delivery, and takes each once.
//   API_KEY=KEY node webhook-receiver.mjs [ADDRESS]
// The daemon must allow the address of this program: PARHELION_WEBHOOKS__ALLOW_CIDRS=127.0.0.1/32
import { createServer } from 'node:http';
import { ask, WALLET } from './client.mjs';
import { isSigned } from './verify.mjs';

const seen = new Set();
let secret = '';

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  if (!isSigned(secret, request.headers, body)) {
    console.log('refused: the signature is wrong');
    response.writeHead(400).end();
    return;
  }
  // A delivery can come twice. Where it must not count twice, keep the ids in the same transaction as its effect.
  const id = request.headers['webhook-id'];
  if (!seen.has(id)) for (const { signature, description } of JSON.parse(body)) console.log(`${signature}  ${description}`);
  seen.add(id);
  response.writeHead(204).end();
});
server.listen(Number(process.env.PORT ?? 9900), '127.0.0.1', async () => {
  const webhook = await ask('/v0/webhooks', {
    webhookURL: `http://127.0.0.1:${server.address().port}/hook`,
    webhookType: 'enhanced',
    transactionTypes: ['ANY'],
    accountAddresses: [process.argv[2] ?? WALLET],
    name: 'Example',
  });
  secret = webhook.signingSecret;
  console.log(`webhook ${webhook.webhookID}`);
  process.once('SIGINT', async () => {
    await ask(`/v0/webhooks/${webhook.webhookID}`, undefined, 'DELETE');
    process.exit();
  });
});
