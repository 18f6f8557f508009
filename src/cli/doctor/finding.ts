import { CodedError, codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';

/** One line of the report. */
export interface Finding {
  /** Name of the check: `node`, `store`, `upstream`. */
  readonly check: string;
  readonly level: 'ok' | 'warn' | 'fail';
  /** The finding; never a secret. */
  readonly detail: string;
  /** Advice for the operator. */
  readonly advice?: string;
  /** Only for failures: exit code of a start that fails for this reason: 57, 75 or 78. */
  readonly exitCode?: number;
}

export const ok = (check: string, detail: string): Finding => ({ check, level: 'ok', detail });

export const warn = (check: string, detail: string, advice: string): Finding => ({
  check,
  level: 'warn',
  detail,
  advice,
});

export const fail = (check: string, detail: string, advice: string, exitCode: number = EXIT.temporary): Finding => ({
  check,
  level: 'fail',
  detail,
  advice,
  exitCode,
});

/** A check that threw. Only texts of coded errors are shown: others may contain addresses with keys. */
export function failedBy(check: string, error: unknown, advice: string): Finding {
  if (!(error instanceof CodedError)) return fail(check, `could not be checked (${codeOf(error) ?? 'error'})`, advice);
  return fail(check, `${error.code}: ${messageOf(error)}`, advice, error.exitCode ?? EXIT.temporary);
}

/**
 * The exit code of a whole report: 0 if nothing failed; else that of the failure to fix first: 78 (configuration), 57 (newer schema), 75
 * (temporary).
 */
export function exitCodeOf(findings: readonly Finding[]): number {
  const codes = new Set(findings.filter(({ level }) => level === 'fail').map(({ exitCode }) => exitCode));
  if (codes.size === 0) return EXIT.ok;
  return [EXIT.config, EXIT.schemaNewer].find((code) => codes.has(code)) ?? EXIT.temporary;
}
