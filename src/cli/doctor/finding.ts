import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';

/** One line of the report. */
export interface Finding {
  /** What was looked at: `node`, `store`, `upstream`. */
  readonly check: string;
  readonly level: 'ok' | 'warn' | 'fail';
  /** What was seen; never a secret. */
  readonly detail: string;
  /** What to do about it. */
  readonly advice?: string;
  /** Of a failure: what a start would end with, 57, 75 or 78. */
  readonly exitCode?: number;
}

export const ok = (check: string, detail: string): Finding => ({ check, level: 'ok', detail });

export const warn = (check: string, detail: string, advice: string): Finding => ({
  ...{ check, level: 'warn', detail, advice },
});

export const fail = (check: string, detail: string, advice: string, exitCode: number = EXIT.temporary): Finding => ({
  ...{ check, level: 'fail', detail, advice, exitCode },
});

/** A check that threw. Its text is shown only when it is one of ours: other errors may name addresses with keys. */
export function failedBy(check: string, error: unknown, advice: string): Finding {
  if (!(error instanceof CodedError)) return fail(check, `could not be checked (${codeOf(error) ?? 'error'})`, advice);
  return fail(check, `${error.code}: ${messageOf(error)}`, advice, error.exitCode ?? EXIT.temporary);
}

/**
 * The exit code of a whole report: 0 when nothing failed; else the failure that has to be mended first: 78 (configuration), 57
 * (newer schema), 75 (everything that may pass by itself).
 */
export function exitCodeOf(findings: readonly Finding[]): number {
  const codes = new Set(findings.filter(({ level }) => level === 'fail').map(({ exitCode }) => exitCode));
  if (codes.size === 0) return EXIT.ok;
  return [EXIT.config, EXIT.schemaNewer].find((code) => codes.has(code)) ?? EXIT.temporary;
}
