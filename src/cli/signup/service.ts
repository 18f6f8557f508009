import { EXIT } from '../../kernel/errors.ts';
import { CodedError, codeOf } from '../../lib/coded-error.ts';

export interface SignupPrice {
  readonly symbol: string;
  /** Null for SOL. */
  readonly mint: string | null;
  readonly decimals: number;
  /** Raw units, decimal. */
  readonly amount: string;
}

export interface SignupTerms {
  readonly treasury: string;
  readonly plan: string;
  readonly credits: number;
  readonly prices: readonly SignupPrice[];
}

export interface SignupProof {
  readonly wallet: string;
  readonly payment: string;
  readonly key: string;
  readonly proof: string;
}

const TIMEOUT_MS = 15_000;

/** Errors: SIGNUP_SERVICE, exit 75. */
export async function askTerms(url: string): Promise<SignupTerms> {
  const { status, body } = await ask(url, {});
  if (status !== 200) throw unusable(`GET /v0/signup answered ${status}: ${errorOf(body)}`);
  return body as unknown as SignupTerms;
}

/** The project; null while the payment is not final. Errors: SIGNUP_SERVICE, exit 75; SIGNUP_REFUSED, exit 70. */
export async function askForKey(url: string, proof: SignupProof): Promise<string | null> {
  const headers = { 'content-type': 'application/json' };
  const { status, body } = await ask(url, { method: 'POST', headers, body: JSON.stringify(proof) });
  if (status === 200) return String(body['projectId']);
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

const errorOf = (body: Record<string, unknown>) => String(body['error'] ?? 'no reason').slice(0, 200);

const unusable = (text: string) => new CodedError('SIGNUP_SERVICE', text, { exitCode: EXIT.temporary });
