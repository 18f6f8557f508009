import { get, type IncomingMessage } from 'node:http';
import { get as secureGet } from 'node:https';
import { text } from 'node:stream/consumers';
import type { Readiness } from '../http/health.ts';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';
import type { RunFile } from './run-file.ts';

const TIMEOUT_MS = 5_000;

/** The status of the running daemon, ready or not. Errors: UPSTREAM_CONNECT, exit 75. */
export async function askReadiness(daemon: RunFile): Promise<Readiness> {
  try {
    const { text } = await askDaemon(daemon, '/readyz');
    return JSON.parse(text) as Readiness;
  } catch (error) {
    const why = codeOf(error) ?? messageOf(error);
    throw new CodedError('UPSTREAM_CONNECT', `the admin listener does not answer: ${why}`, {
      exitCode: EXIT.temporary,
    });
  }
}

/**
 * A GET on the admin listener. Its certificate is for its public name, not for the address in the run file, so it is not verified:
 * nothing secret is sent.
 */
export function askDaemon(
  { admin }: RunFile,
  path: string,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const onAnswer = (response: IncomingMessage) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, text: body }), reject);
    };
    const request = admin.startsWith('https:')
      ? secureGet(admin + path, { signal, agent: false, rejectUnauthorized: false }, onAnswer)
      : get(admin + path, { signal, agent: false }, onAnswer);
    request.once('error', reject);
  });
}
