/** Calls of the simulated daemon's API over its real listener. */
import { Agent, request } from 'node:http';
import { type DaemonProcess, type DaemonRig, PROJECT_KEY } from './daemon-harness.ts';

export interface ApiCall {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

export interface ApiAnswer {
  /** Null when the process was killed first: what the call did is not known. */
  readonly status: number | null;
  readonly body: unknown;
  /** Of the clock that never jumps. */
  readonly atMs: number;
}

const AGENT = new Agent({ keepAlive: false });
const STEP_MS = 5;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Sends calls one after the other, so that they arrive in this order, and lets time pass until all are answered. */
export async function callAll(
  rig: DaemonRig,
  { daemon, life, api }: DaemonProcess,
  calls: readonly ApiCall[],
): Promise<readonly ApiAnswer[]> {
  const given = new AbortController();
  const answers: Promise<ApiAnswer>[] = [];
  let open = 0;
  for (const call of calls) {
    const before = daemon.load().requests;
    open += 1;
    const answer = send(rig, api, call, given.signal).finally(() => {
      open -= 1;
    });
    answers.push(answer);
    // The way there takes none of the made-up time, however busy the machine is.
    while (daemon.load().requests === before && open > 0) await turn();
  }
  while (open > 0 && !life.isDead) {
    if (daemon.load().inFlight > 0) await rig.clock.advance(STEP_MS);
    else await turn();
  }
  given.abort();
  return await Promise.all(answers);
}

function send({ clock }: DaemonRig, api: string, call: ApiCall, signal: AbortSignal): Promise<ApiAnswer> {
  const body = call.body === undefined ? '' : JSON.stringify(call.body);
  const mark = call.path.includes('?') ? '&' : '?';
  return new Promise((resolve) => {
    const lost = () => resolve({ status: null, body: null, atMs: clock.monotonic() });
    const sent = request(
      `${api}${call.path}${mark}api-key=${PROJECT_KEY}`,
      {
        method: call.method,
        agent: AGENT,
        signal,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
      },
      (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', lost);
        response.on('end', () => {
          const text = Buffer.concat(parts).toString();
          resolve({
            status: response.statusCode ?? 0,
            body: text === '' ? null : JSON.parse(text),
            atMs: clock.monotonic(),
          });
        });
      },
    );
    sent.on('error', lost);
    sent.end(body);
  });
}
