import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Type } from '@sinclair/typebox';
import { createValidator } from '../../http/validation.ts';
import { CodedError, codeOf } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';
import { EXIT } from '../../runtime/errors.ts';

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
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Requires https: on plain HTTP an attacker could replace prices and receiver. Errors: SIGNUP_USAGE, exit 64. */
export function demandSafeAddress(url: string): void {
  const { protocol, hostname } = new URL(URL.canParse(url) ? url : 'none:');
  if (protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname))) return;
  throw new CodedError('SIGNUP_USAGE', '--url must begin with https://; http:// is for services on this machine only', {
    exitCode: EXIT.usage,
  });
}

/** Errors: SIGNUP_SERVICE, exit 75. */
export async function askTerms(url: string): Promise<SignupTerms> {
  const { status, body } = await ask(url, {});
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
  if (status === 200)
    return String(body['projectId'])
      .slice(0, 64)
      .replace(/[^\w-]/g, '');
  // 404: the block has not reached the service yet.
  if (status === 202 || status === 404) return null;
  const text = `POST /v0/signup answered ${status}: ${errorOf(body)}`;
  if (status >= 400 && status < 500 && status !== 429)
    throw new CodedError('SIGNUP_REFUSED', text, { exitCode: EXIT.bug });
  throw unusable(text);
}

async function ask(url: string, init: RequestInit): Promise<{ status: number; body: Record<string, unknown> }> {
  try {
    const address = `${url.replace(/\/+$/, '')}/v0/signup`;
    const response = await fetch(address, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS), redirect: 'error' });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    throw unusable(`the service does not answer as expected (${codeOf(cause) ?? codeOf(error) ?? 'no JSON'})`);
  }
}

/** Text of the service without control characters. */
const errorOf = (body: Record<string, unknown> | null) =>
  String(body?.['error'] ?? 'no reason')
    .replace(/\p{Cc}/gu, ' ')
    .slice(0, 200);

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
