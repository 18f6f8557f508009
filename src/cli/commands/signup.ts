import { createPrivateKey, randomUUID, sign } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from '@sinclair/typebox';
import { createValidator } from '../../http/validation.ts';
import { decode32, encode32, encode64 } from '../../lib/base58.ts';
import { CodedError, codeOf, EXIT } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';
import { signupMessage } from '../../lib/signup-message.ts';
import { callPeer, type PeerCall } from '../../runtime/call-peer.ts';
import { PYUSD_MINT, USDC_MINT, USDT_MINT } from '../../solana/programs.ts';
import type { CliIo, CommandValues, RunCommand } from '../command.ts';
import { isSafeAddress } from '../safe-address.ts';
import { type Connection, fromRawUnits, type Keypair, readWalletFile, toRawUnits } from '../signup/pay.ts';

const LOOK_MS = 1_000;
/** A payment is final in less than a second with Alpenglow, after about 13 seconds with TowerBFT; on a halted chain it may take any time. */
const PATIENCE_MS = 300_000;
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

const SOL_DECIMALS = 9;
/** Tokens that can be chosen by symbol. */
const MAINNET_MINTS: Readonly<Record<string, string>> = {
  USDC: USDC_MINT,
  USDT: USDT_MINT,
  PYUSD: PYUSD_MINT,
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
  const wallet = readWalletFile(resolve(io.cwd, String(values['keypair'])));
  const file = resolve(io.cwd, textOption(values, 'output') ?? 'parhelion-key.json');
  const state = readSignupState(file) ?? {
    url,
    wallet: encode32(wallet.publicKey.toBytes()),
    key: randomUUID(),
    payment: null,
    projectId: null,
  };
  if (state.url !== url || state.wallet !== encode32(wallet.publicKey.toBytes()))
    throw usage(`${file} belongs to another service or wallet: choose another file with --output`);
  if (state.projectId === null) {
    const { connectTo } = await import('../signup/pay.ts');
    const rpc = textOption(values, 'rpc') ?? io.env['SOLANA_RPC_URL'];
    if (rpc === undefined || !/^https?:\/\//.test(rpc)) throw usage('--rpc or SOLANA_RPC_URL must name a Solana node');
    const signing = { file, wallet, connection: connectTo(rpc), state };
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
  const asset = chooseAsset(textOption(values, 'asset'), textOption(values, 'mint'));
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

const textOption = (values: CommandValues, name: string): string | undefined => {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
};

const usage = (text: string) => new CodedError('SIGNUP_USAGE', text, { exitCode: EXIT.usage });
const later = (code: string, text: string) => new CodedError(code, text, { exitCode: EXIT.temporary });

/** A price of the service. Symbol and decimals are only for display; no decision depends on them. */
interface SignupPrice {
  readonly symbol: string;
  /** Null for SOL. */
  readonly mint: string | null;
  /** Raw units, decimal. */
  readonly amount: string;
}

export interface SignupTerms {
  readonly treasury: string;
  readonly plan: string;
  readonly credits: number;
  readonly prices: readonly SignupPrice[];
}

interface SignupProof {
  readonly wallet: string;
  readonly payment: string;
  readonly key: string;
  readonly proof: string;
}

const TIMEOUT_MS = 15_000;
const ADDRESS = Type.String({ pattern: '^[1-9A-HJ-NP-Za-km-z]{32,44}$' });
/** Texts are printed to a terminal, so they must not contain control characters. */
const TERMS = Type.Object({
  treasury: ADDRESS,
  plan: Type.String({ pattern: '^[\\w .-]{1,64}$' }),
  credits: Type.Integer({ minimum: 0 }),
  prices: Type.Array(
    Type.Object({
      symbol: Type.String({ pattern: '^[A-Za-z0-9]{1,12}$' }),
      mint: Type.Union([ADDRESS, Type.Null()]),
      amount: Type.String({ pattern: '^[1-9]\\d{0,19}$' }),
    }),
    { maxItems: 64 },
  ),
});
const MAX_U64 = 2n ** 64n - 1n;

/** Requires https: on plain HTTP an attacker could replace prices and receiver. Errors: SIGNUP_USAGE, exit 64. */
export function demandSafeAddress(url: string): void {
  if (isSafeAddress(url)) return;
  throw new CodedError('SIGNUP_USAGE', '--url must begin with https://; http:// is for services on this machine only', {
    exitCode: EXIT.usage,
  });
}

/** Errors: SIGNUP_SERVICE, exit 75. */
export async function askTerms(url: string): Promise<SignupTerms> {
  const { status, body } = await ask(url, {});
  if (status === 404) throw unusable('it offers no sign-up: GET /v0/signup answered 404');
  if (status !== 200) throw unusable(`GET /v0/signup answered ${status}: ${errorOf(body)}`);
  const problem = createValidator().compile(TERMS, 'the terms')(body);
  if (problem !== null) throw unusable(`GET /v0/signup returned invalid terms: ${problem.slice(0, 200)}`);
  const terms = body as unknown as SignupTerms;
  if (terms.prices.some(({ amount }) => BigInt(amount) > MAX_U64)) throw unusable('a price is not an amount');
  return terms;
}

/** Returns the project; null while the payment is not final. Errors: SIGNUP_SERVICE, exit 75; SIGNUP_REFUSED, exit 70. */
export async function askForKey(url: string, proof: SignupProof): Promise<string | null> {
  const headers = { 'content-type': 'application/json' };
  const { status, body } = await ask(url, { method: 'POST', headers, body: JSON.stringify(proof) });
  if (status === 200) {
    const { projectId } = body;
    if (typeof projectId !== 'string') throw unusable('POST /v0/signup answered without a project');
    return projectId.slice(0, 64).replace(/[^\w-]/g, '');
  }
  // 404: the block has not reached the service yet.
  if (status === 202 || status === 404) return null;
  const text = `POST /v0/signup answered ${status}: ${errorOf(body)}`;
  if (status >= 400 && status < 500 && status !== 429)
    throw new CodedError('SIGNUP_REFUSED', text, { exitCode: EXIT.bug });
  throw unusable(text);
}

async function ask(url: string, call: PeerCall): Promise<{ status: number; body: Record<string, unknown> }> {
  try {
    const address = `${url.replace(/\/+$/, '')}/v0/signup`;
    const response = await callPeer(address, { ...call, signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body: unknown = JSON.parse(await smallText(response));
    // What else JSON has is neither terms nor a project.
    return { status: response.status, body: isPlainObject(body) ? body : {} };
  } catch (error) {
    if (error instanceof CodedError) throw error;
    const cause = error instanceof Error ? error.cause : undefined;
    throw unusable(`the service does not answer as expected (${codeOf(cause) ?? codeOf(error) ?? 'no JSON'})`);
  }
}

const MAX_ANSWER_BYTES = 65_536;

/** Throws for a longer one: the service decides how much it sends. */
async function smallText({ body }: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += part.length;
    if (bytes > MAX_ANSWER_BYTES) throw unusable('its answer is too long');
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Text of the service without control and format characters, which could change what a terminal shows. */
const errorOf = (body: Record<string, unknown>) =>
  (typeof body['error'] === 'string' ? body['error'] : 'no reason').replace(/\p{C}/gu, ' ').slice(0, 200);

const unusable = (text: string) => new CodedError('SIGNUP_SERVICE', text, { exitCode: EXIT.temporary });

/** An unfinished or finished sign-up. */
export interface SignupState {
  readonly url: string;
  readonly wallet: string;
  /** Valid once `projectId` is set. */
  readonly key: string;
  /** Signed, and sent or about to be sent; null before. */
  readonly payment: { readonly signature: string; readonly lastValidBlockHeight: number } | null;
  readonly projectId: string | null;
}

/** Null when there is no file. Errors: SIGNUP_STATE, exit 64. */
export function readSignupState(path: string): SignupState | null {
  if (!existsSync(path)) return null;
  let value: unknown = null;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    // Invalid JSON is reported below.
  }
  const texts = isPlainObject(value) ? [value['url'], value['wallet'], value['key']] : [null];
  if (texts.every((text) => typeof text === 'string')) return value as SignupState;
  throw new CodedError('SIGNUP_STATE', `${path} is not a sign-up file: choose another file with --output`, {
    exitCode: EXIT.usage,
  });
}

/** Writes the file atomically, readable only by its owner. */
export function writeSignupState(path: string, state: SignupState): void {
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(temporary, path);
}
