/**
 * Signs up with the functions of helius-sdk as they are: prints what `signupAndPay` returns. The package has the addresses of a node as constants;
 * they become those of RPC_URL and WS_URL while it is loaded.
 */
import { register } from 'node:module';

const { RPC_URL, WS_URL, SECRET_KEY } = process.env;
const hooks = `export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.endsWith('/helius-sdk/dist/esm/auth/constants.js')) return loaded;
  const source = String(loaded.source)
    .replace('https://api.mainnet-beta.solana.com', ${JSON.stringify(RPC_URL)})
    .replace('wss://api.mainnet-beta.solana.com', ${JSON.stringify(WS_URL)});
  return { ...loaded, source };
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);

const { createHelius } = await import('helius-sdk');
const options = {
  secretKey: Uint8Array.from(JSON.parse(SECRET_KEY)),
  plan: 'agent',
  email: 'agent@example.org',
  firstName: 'A',
  lastName: 'Gent',
};
console.log(JSON.stringify(await createHelius({ apiKey: 'none' }).auth.signupAndPay(options)));
process.exit(0);
