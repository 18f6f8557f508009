import { createPrivateKey, randomUUID, sign } from 'node:crypto';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT } from '../../kernel/errors.ts';
import { encode32, encode64 } from '../../lib/base58.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { signupMessage } from '../../lib/signup-message.ts';
import type { CommandValues, RunCommand } from '../command.ts';
import type { CliIo } from '../io.ts';
import { fromRawUnits, toRawUnits } from '../signup/amount.ts';
import type { Connection, Keypair } from '../signup/pay.ts';
import { askForKey, askTerms, type SignupPrice, type SignupTerms } from '../signup/service.ts';
import { readSignupState, type SignupState, writeSignupState } from '../signup/state-file.ts';
import { readWalletFile } from '../signup/wallet-file.ts';

const LOOK_MS = 1_000;
/** A payment is final after about 13 seconds; a chain that stands still may take any time. */
const PATIENCE_MS = 300_000;
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

interface Signing {
  readonly file: string;
  readonly wallet: Keypair;
  readonly connection: Connection;
  /** Of the last look. */
  state: SignupState;
}

export const run: RunCommand = async (values, io) => {
  const url = String(values['url']);
  const wallet = await readWalletFile(resolve(io.cwd, String(values['keypair'])));
  const file = resolve(io.cwd, textOf(values, 'output') ?? 'parhelion-key.json');
  const state = readSignupState(file) ?? {
    ...{ url, wallet: encode32(wallet.publicKey.toBytes()), key: randomUUID(), payment: null, projectId: null },
  };
  if (state.url !== url || state.wallet !== encode32(wallet.publicKey.toBytes()))
    throw usage(`${file} is of another service or wallet: name another one with --output`);
  if (state.projectId === null) {
    const { connectTo } = await import('../signup/pay.ts');
    const rpc = textOf(values, 'rpc') ?? io.env['SOLANA_RPC_URL'];
    if (rpc === undefined || !/^https?:\/\//.test(rpc))
      throw usage('--rpc or SOLANA_RPC_URL has to name a Solana node');
    const signing = { file, wallet, connection: connectTo(rpc), state };
    writeSignupState(file, state);
    await pay(signing, values, io);
    await claim(signing, io);
    return report(signing.state, file, values, io);
  }
  return report(state, file, values, io);
};

/** Unless a payment is under way that may still land. */
async function pay(signing: Signing, values: CommandValues, io: CliIo): Promise<void> {
  const { paymentFate, sendPayment, signPayment } = await import('../signup/pay.ts');
  const { connection, wallet, file, state } = signing;
  if (state.payment !== null && (await paymentFate(connection, state.payment)) !== 'lost') return;
  const terms = await askTerms(state.url);
  const price = choosePrice(terms, textOf(values, 'asset') ?? 'SOL', String(values['max']));
  const signed = await signPayment(connection, wallet, terms.treasury, price);
  const { signature, lastValidBlockHeight } = signed;
  // Before it is sent: what a crash interrupts is found again.
  signing.state = { ...state, payment: { signature, lastValidBlockHeight } };
  writeSignupState(file, signing.state);
  io.err(`paying ${fromRawUnits(BigInt(price.amount), price.decimals)} ${price.symbol} to ${terms.treasury}`);
  await sendPayment(connection, signed);
}

function choosePrice({ prices }: SignupTerms, asset: string, max: string): SignupPrice {
  const price = prices.find(({ symbol }) => symbol.toUpperCase() === asset.toUpperCase());
  if (price === undefined) throw usage(`the service takes ${prices.map(({ symbol }) => symbol).join(', ')}`);
  if (BigInt(price.amount) > toRawUnits(max, price.decimals))
    throw usage(`the price is ${fromRawUnits(BigInt(price.amount), price.decimals)} ${price.symbol}, more than --max`);
  return price;
}

/** Asks until the payment is final. Errors: SIGNUP_WAITING, SIGNUP_LOST, exit 75. */
async function claim(signing: Signing, io: CliIo): Promise<void> {
  const { paymentFate } = await import('../signup/pay.ts');
  const { state, wallet, file, connection } = signing;
  const { payment } = state;
  if (payment === null) return;
  const message = signupMessage({ payment: payment.signature, key: state.key });
  const proof = signWith(wallet, message);
  const endsAtMs = performance.now() + PATIENCE_MS;
  for (let told = false; performance.now() < endsAtMs; told = true) {
    const claimed = { wallet: state.wallet, payment: payment.signature, key: state.key, proof };
    const projectId = await askForKey(state.url, claimed);
    if (projectId !== null) {
      signing.state = { ...state, projectId };
      writeSignupState(file, signing.state);
      return;
    }
    if (!told) io.err(`waiting until payment ${payment.signature} is final`);
    if ((await paymentFate(connection, payment)) === 'lost')
      throw later('SIGNUP_LOST', 'the payment failed or was never taken: run the command again to pay anew');
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
