import { createPrivateKey, randomUUID, sign } from 'node:crypto';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { decode32, encode32, encode64 } from '../../lib/base58.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { signupMessage } from '../../lib/signup-message.ts';
import { EXIT } from '../../runtime/errors.ts';
import type { CommandValues, RunCommand } from '../command.ts';
import type { CliIo } from '../io.ts';
import { type Connection, fromRawUnits, type Keypair, readWalletFile, toRawUnits } from '../signup/pay.ts';
import {
  askForKey,
  askTerms,
  demandSafeAddress,
  readSignupState,
  type SignupState,
  type SignupTerms,
  writeSignupState,
} from '../signup/service.ts';

const LOOK_MS = 1_000;
/** A payment is final after about 13 seconds; on a halted chain it may take any time. */
const PATIENCE_MS = 300_000;
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

const SOL_DECIMALS = 9;
/** Tokens that can be chosen by symbol. */
const MAINNET_MINTS: Readonly<Record<string, string>> = {
  USDC: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
  USDT: 'Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB',
  PYUSD: '2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo',
};

interface Asset {
  readonly name: string;
  /** Null for SOL. */
  readonly mint: string | null;
}

interface Signing {
  readonly file: string;
  readonly wallet: Keypair;
  readonly connection: Connection;
  /** From the last check. */
  state: SignupState;
}

export const run: RunCommand = async (values, io) => {
  const url = String(values['url']);
  demandSafeAddress(url);
  const wallet = await readWalletFile(resolve(io.cwd, String(values['keypair'])));
  const file = resolve(io.cwd, textOf(values, 'output') ?? 'parhelion-key.json');
  const state = readSignupState(file) ?? {
    ...{ url, wallet: encode32(wallet.publicKey.toBytes()), key: randomUUID(), payment: null, projectId: null },
  };
  if (state.url !== url || state.wallet !== encode32(wallet.publicKey.toBytes()))
    throw usage(`${file} belongs to another service or wallet: choose another file with --output`);
  if (state.projectId === null) {
    const { connectTo } = await import('../signup/pay.ts');
    const rpc = textOf(values, 'rpc') ?? io.env['SOLANA_RPC_URL'];
    if (rpc === undefined || !/^https?:\/\//.test(rpc)) throw usage('--rpc or SOLANA_RPC_URL must name a Solana node');
    const signing = { file, wallet, connection: connectTo(rpc), state };
    writeSignupState(file, state);
    await pay(signing, values, io);
    await claim(signing, io);
    return report(signing.state, file, values, io);
  }
  return report(state, file, values, io);
};

/** Pays, unless an earlier payment may still land. */
async function pay(signing: Signing, values: CommandValues, io: CliIo): Promise<void> {
  const { paymentFate, readToken, sendPayment, signPayment } = await import('../signup/pay.ts');
  const { connection, wallet, file, state } = signing;
  if (state.payment !== null && (await paymentFate(connection, state.payment)) !== 'lost') return;
  const asset = chooseAsset(textOf(values, 'asset'), textOf(values, 'mint'));
  const terms = await askTerms(state.url);
  const amount = priceOf(terms, asset);
  const token = asset.mint === null ? null : await readToken(connection, asset.mint);
  const decimals = token?.decimals ?? SOL_DECIMALS;
  const shown = `${fromRawUnits(amount, decimals)} ${asset.name}`;
  if (amount > toRawUnits(String(values['max']), decimals)) throw usage(`the price is ${shown}, more than --max`);
  const what = token === null ? shown : `${shown} (mint ${token.mint}, program ${token.program})`;
  io.err(`paying ${what} to ${terms.treasury}, as ${state.url} asks`);
  const signed = await signPayment(connection, wallet, { treasury: terms.treasury, amount, token });
  const { signature, lastValidBlockHeight } = signed;
  // Stored before it is sent, so that it is found again after a crash.
  signing.state = { ...state, payment: { signature, lastValidBlockHeight } };
  writeSignupState(file, signing.state);
  await sendPayment(connection, signed);
}

/** The currency chosen by the user; a service that uses the same symbol for another token is not paid. */
function chooseAsset(symbol: string | undefined, mint: string | undefined): Asset {
  if (mint !== undefined) {
    if (decode32(mint) === null) throw usage(`--mint: "${mint}" is not an address`);
    if (symbol !== undefined) throw usage('--asset and --mint exclude each other');
    return { name: 'tokens', mint };
  }
  const name = (symbol ?? 'SOL').toUpperCase();
  if (name === 'SOL') return { name, mint: null };
  const known = MAINNET_MINTS[name];
  if (known === undefined)
    throw usage(`--asset takes SOL, ${Object.keys(MAINNET_MINTS).join(', ')}; name any other token by --mint`);
  return { name, mint: known };
}

/** Raw units or lamports. */
function priceOf({ prices }: SignupTerms, { name, mint }: Asset): bigint {
  const price = prices.find((one) => one.mint === mint);
  if (price !== undefined) return BigInt(price.amount);
  const taken = prices.map((one) => (one.mint === null ? 'SOL' : `mint ${one.mint} (which it calls ${one.symbol})`));
  throw usage(`the service takes no ${mint === null ? name : `${name} of mint ${mint}`}, but ${taken.join(', ')}`);
}

/** Polls until the payment is final. Errors: SIGNUP_WAITING, SIGNUP_LOST, exit 75. */
async function claim(signing: Signing, io: CliIo): Promise<void> {
  const { paymentFate } = await import('../signup/pay.ts');
  const { state, wallet, file, connection } = signing;
  const { payment } = state;
  if (payment === null) return;
  const message = signupMessage({ payment: payment.signature, key: state.key });
  const proof = signWith(wallet, message);
  const endsAtMs = performance.now() + PATIENCE_MS;
  for (let announced = false; performance.now() < endsAtMs; announced = true) {
    const claimed = { wallet: state.wallet, payment: payment.signature, key: state.key, proof };
    const projectId = await askForKey(state.url, claimed);
    if (projectId !== null) {
      signing.state = { ...state, projectId };
      writeSignupState(file, signing.state);
      return;
    }
    if (!announced) io.err(`waiting until payment ${payment.signature} is final`);
    if ((await paymentFate(connection, payment)) === 'lost')
      throw later(
        'SIGNUP_LOST',
        'the payment failed or was not included in a block: run the command again to pay again',
      );
    await sleep(LOOK_MS);
  }
  throw later('SIGNUP_WAITING', 'the payment is not final yet: run the command again, it does not pay twice');
}

function signWith(wallet: Keypair, message: Uint8Array): string {
  const der = Buffer.concat([PKCS8_HEAD, wallet.secretKey.subarray(0, 32)]);
  return encode64(sign(null, message, createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })));
}

function report({ key, projectId }: SignupState, file: string, values: CommandValues, io: CliIo): number {
  if (values['json'] === true) io.out(JSON.stringify({ key, project: projectId, file }));
  else io.out(`key ${key}\nproject ${projectId}; both are in ${file}`);
  return EXIT.ok;
}

const textOf = (values: CommandValues, name: string): string | undefined => {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
};

const usage = (text: string) => new CodedError('SIGNUP_USAGE', text, { exitCode: EXIT.usage });
const later = (code: string, text: string) => new CodedError(code, text, { exitCode: EXIT.temporary });
