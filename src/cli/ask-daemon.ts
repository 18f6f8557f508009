import { EXIT } from '../kernel/errors.ts';
import type { Readiness } from '../kernel/health.ts';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import type { RunFile } from './run-file.ts';

const TIMEOUT_MS = 5_000;

/** What the running daemon says of itself, ready or not. Errors: UPSTREAM_CONNECT, exit 75. */
export async function askReadiness(daemon: RunFile): Promise<Readiness> {
  try {
    const response = await askDaemon(daemon, '/readyz');
    return (await response.json()) as Readiness;
  } catch (error) {
    const why = error instanceof Error ? (codeOf(error.cause) ?? messageOf(error)) : messageOf(error);
    throw new CodedError('UPSTREAM_CONNECT', `the admin listener does not answer: ${why}`, {
      exitCode: EXIT.temporary,
    });
  }
}

/** A GET on the admin listener. */
export async function askDaemon({ admin }: RunFile, path: string): Promise<Response> {
  return await fetch(admin + path, { signal: AbortSignal.timeout(TIMEOUT_MS) });
}
