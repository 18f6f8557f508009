import { type Clock, codeOf, type Log, type Metrics, messageOf, type Outbound } from '../../../src/plugin/plugin.ts';
import type { OutboundClient, OutboundResponse } from '../../../src/ports/outbound.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import { timedOut, unavailable, withheld } from '../rpc/fields.ts';
import { type CompressedProof, readProofAnswer } from './proof-answer.ts';

interface ProverParts {
  readonly config: {
    /** Null: there is none. */
    readonly proverUrl: string | null;
    readonly proverApiKey: string | null;
    readonly proverTimeoutMs: number;
    readonly proverConcurrency: number;
  };
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** The server that makes the Groth16 proofs. */
export interface Prover {
  /** Errors of `prove` that do not depend on the proof: there is no prover. To be called before anything is prepared for it. */
  required(): void;
  /** Errors: RpcError with the code for clients. */
  prove(body: string, signal: AbortSignal): Promise<CompressedProof>;
  close(): Promise<void>;
}

const MOST_WAITING = 1_000;
/** A proof has about 700 bytes. */
const ANSWER_BYTES = 16_384;
const NO_PROVER =
  'no prover is configured (set compression.proverUrl); Merkle proofs are available through getMultipleCompressedAccountProofs';

export function createProver({ config, outbound, clock, log, metrics }: ProverParts): Prover {
  const { proverUrl, proverApiKey, proverTimeoutMs } = config;
  const semaphore = createSemaphore({ concurrency: config.proverConcurrency, maxWaiting: MOST_WAITING });
  const calls = metrics.counter('prover_calls_total', 'proofs asked of the prover, by how it ended', ['outcome']);
  let client: OutboundClient | null = null;

  const send = async (url: string, body: string, timeoutMs: number, signal: AbortSignal): Promise<OutboundResponse> => {
    client ??= openClient(outbound, config.proverConcurrency);
    return await client.request({
      method: 'POST',
      url: proveUrl(url),
      headers: {
        'content-type': 'application/json',
        ...(proverApiKey === null ? {} : { authorization: `Bearer ${proverApiKey}` }),
      },
      body: Buffer.from(body),
      timeoutMs,
      keepBytes: ANSWER_BYTES,
      maxBytes: ANSWER_BYTES,
      signal,
    });
  };

  const ask = async (url: string, body: string, signal: AbortSignal): Promise<CompressedProof> => {
    const startedMs = clock.monotonic();
    const release = await permitWithin(semaphore.acquire({ signal }), proverTimeoutMs, clock);
    try {
      const leftMs = proverTimeoutMs - (clock.monotonic() - startedMs);
      if (leftMs <= 0) throw late();
      const response = await send(url, body, leftMs, signal).catch((error: unknown) => {
        throw failure(error);
      });
      return proofOf(response);
    } finally {
      release();
    }
  };

  return {
    required() {
      if (proverUrl === null) throw unavailable(NO_PROVER);
    },
    async prove(body, signal) {
      if (proverUrl === null) throw unavailable(NO_PROVER);
      try {
        const proof = await ask(proverUrl, body, signal);
        calls.with('ok').add();
        return proof;
      } catch (error) {
        calls.with('failed').add();
        const { details } = error as { details?: unknown };
        if (!signal.aborted) log.warn({ details: details ?? messageOf(error) }, 'the prover made no proof');
        throw error;
      }
    },
    close: async () => {
      await client?.close();
    },
  };
}

/** The address is the operator's own choice: any network may be meant, and http within it. */
function openClient(outbound: Outbound, maxConnections: number): OutboundClient {
  const allowCidrs = ['0.0.0.0/0', '::/0'];
  return outbound.open({ allowCidrs, allowHttp: true, allowPorts: null, caFile: null, maxConnections });
}

/** `<base>/prove`; a query of the base, which may hold a key, stays. */
function proveUrl(base: string): string {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/prove`;
  return url.href;
}

async function permitWithin(permit: Promise<() => void> | null, timeoutMs: number, clock: Clock): Promise<() => void> {
  if (permit === null) throw unavailable('too many requests wait for the prover');
  return await new Promise((resolve, reject) => {
    let isLate = false;
    const cancel = clock.timeout(timeoutMs, () => {
      isLate = true;
      reject(late());
    });
    permit.then(
      (release) => {
        cancel();
        if (isLate) release();
        else resolve(release);
      },
      (error: unknown) => {
        cancel();
        reject(error);
      },
    );
  });
}

const late = () => timedOut('the prover did not answer in time');

/** Codes of the outbound client, which tell nothing of the address. */
function failure(error: unknown): unknown {
  switch (codeOf(error)) {
    case 'OUTBOUND_TIMEOUT':
      return late();
    case 'OUTBOUND_BAD_RESPONSE':
    case 'OUTBOUND_TOO_LARGE':
      return withheld('the answer of the prover is no proof');
    case undefined:
      return error;
    default:
      return unavailable('the prover cannot be reached');
  }
}

function proofOf({ status, body, truncated }: OutboundResponse): CompressedProof {
  if (status >= 500) throw unavailable(`the prover failed (${status})`);
  if (status >= 400) throw withheld(`the prover refused the request (${status})`);
  const proof = status >= 200 && status < 300 && !truncated ? readProofAnswer(body.toString('utf8')) : null;
  if (proof === null) throw withheld('the answer of the prover is no proof');
  return proof;
}
