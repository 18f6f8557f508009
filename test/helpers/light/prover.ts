import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../free-port.ts';
import type { ProverAssets } from './prover-assets.ts';

const SETPRIV = '/usr/bin/setpriv';
const TRIES = 3_000;

type Circuit = 'inclusion' | 'non-inclusion';

export interface TestProver {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts the published prover with the keys of some circuits. It ends with the test at the latest. */
export async function startProver({ program, keys }: ProverAssets, names: readonly Circuit[]): Promise<TestProver> {
  const [port, metricsPort] = [await freePort(), await freePort()];
  const circuits = names.flatMap((name) => ['--circuit', name]);
  const addresses = ['--prover-address', `127.0.0.1:${port}`, '--metrics-address', `127.0.0.1:${metricsPort}`];
  const bound = existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig', 'KILL', '--'] : [];
  const [command, ...args] = [
    ...bound,
    program,
    'start',
    '--server-only',
    ...circuits,
    '--keys-dir',
    keys,
    ...addresses,
  ];
  const child = spawn(command as string, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  const gone = once(child, 'exit');
  const url = `http://127.0.0.1:${port}`;
  const isUp = () =>
    fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  for (let tries = 0; !(await isUp()); tries += 1) {
    if (child.exitCode !== null || tries === TRIES)
      throw new Error(`the prover does not start:\n${output.join('').slice(-4_000)}`);
    await sleep(100);
  }
  return {
    url,
    async stop() {
      child.kill('SIGTERM');
      await gone;
    },
  };
}
