import type { MessagePort } from 'node:worker_threads';
import type { CrewDuties } from '../../ports/crew.ts';
import { type Ask, type Taken, type Told, toErrorData } from './wire.ts';

/** Does what the main thread asks for, on the other side of `port`; `fatal` is what ends the daemon. */
export function serveDuties(port: MessagePort, duties: CrewDuties, fatal: Promise<unknown>): void {
  const tell = (told: Told) => port.postMessage(told);

  async function answer({ id, duty, args }: Ask): Promise<void> {
    try {
      const run = duties[duty as keyof CrewDuties] as (...args: readonly unknown[]) => Promise<unknown>;
      tell({ kind: 'answer', id, value: await run(...args) });
    } catch (error) {
      tell({ kind: 'error', id, error: toErrorData(error) });
    }
  }
  port.on('message', (message: Ask | Taken) => {
    if ('duty' in message) void answer(message);
  });
  void fatal.then((error) => tell({ kind: 'fatal', error: toErrorData(error) }));
}
