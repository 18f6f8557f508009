/** Requests at a fixed rate, whether or not answers come: a slow answer does not make the next request later. */
import { Agent, request } from 'node:http';

export interface SteadyLoad {
  readonly url: string;
  readonly body: string;
  readonly perSecond: number;
  readonly seconds: number;
  readonly connections: number;
}

export interface SteadyResult {
  /** From the moment at which a request was due to the last byte of its answer, in ms, ascending. */
  readonly latenciesMs: readonly number[];
}

/** Throws when an answer is not 200. */
export async function steadyLoad({ url, body, perSecond, seconds, connections }: SteadyLoad): Promise<SteadyResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const total = Math.floor(perSecond * seconds);
  const latenciesMs: number[] = [];
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  const startedMs = performance.now();

  const ask = (dueMs: number) =>
    new Promise<void>((resolve, reject) => {
      const asking = request(url, { agent, method: 'POST', headers }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`${url}: ${response.statusCode}`));
        response.resume();
        response.once('end', () => {
          latenciesMs.push(performance.now() - dueMs);
          resolve();
        });
      });
      asking.once('error', reject);
      asking.end(body);
    });

  const asked: Promise<void>[] = [];
  while (asked.length < total) {
    const due = Math.min(total, Math.floor(((performance.now() - startedMs) / 1_000) * perSecond));
    while (asked.length < due) asked.push(ask(startedMs + (asked.length / perSecond) * 1_000));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(asked);
  agent.destroy();
  return { latenciesMs: latenciesMs.sort((a, b) => a - b) };
}

export const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
