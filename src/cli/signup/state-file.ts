import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { EXIT } from '../../kernel/errors.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/plain-object.ts';

/** A sign-up under way, or done. */
export interface SignupState {
  readonly url: string;
  readonly wallet: string;
  /** Good once `projectId` is set. */
  readonly key: string;
  /** Signed, and sent or about to be; null before. */
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
    // What is no JSON is no state either.
  }
  const texts = isPlainObject(value) ? [value['url'], value['wallet'], value['key']] : [null];
  if (texts.every((text) => typeof text === 'string')) return value as SignupState;
  throw new CodedError('SIGNUP_STATE', `${path} is no file of a sign-up: name another one with --output`, {
    exitCode: EXIT.usage,
  });
}

/** Readable by its owner alone; a reader never sees half of it. */
export function writeSignupState(path: string, state: SignupState): void {
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(temporary, path);
}
