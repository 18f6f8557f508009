/**
 * Which of the test processes that are there work. Many tests wait for a lease or a poll, so one more than the least begins whenever the machine
 * has had time to spare. The runners start more processes than that, and each waits at the gate for its turn (`test-process.mjs`).
 */
import { rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { cpus } from 'node:os';

const SAMPLE_MS = 1_000;
/** Tests often wait for each other: a core without work for one second says little of the next. */
const IDLE_SAMPLES = 2;
/** Share of the time of all cores. */
const TO_SPARE = 0.1;

export interface Gate {
  close(): void;
}

/**
 * Opens a gate at this path. A process asks by connecting, begins with the first byte, and has ended when its connection has. `least` work at
 * once, and never more than `most`.
 */
export function openGate(path: string, least: number, most: number): Gate {
  const waiting = new Set<Socket>();
  let working = 0;
  const letIn = (limit: number) => {
    const [socket] = waiting;
    if (socket === undefined || working >= limit) return;
    waiting.delete(socket);
    working += 1;
    socket.write('1');
  };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('close', () => {
      if (!waiting.delete(socket)) working -= 1;
      letIn(least);
    });
    socket.resume();
    waiting.add(socket);
    letIn(least);
  }).listen(path);
  let sampled = coreTimes();
  let idleFor = 0;
  const sampling = setInterval(() => {
    const now = coreTimes();
    const idle = (now.idle - sampled.idle) / (now.all - sampled.all);
    sampled = now;
    idleFor = idle >= TO_SPARE ? idleFor + 1 : 0;
    if (idleFor < IDLE_SAMPLES) return;
    idleFor = 0;
    letIn(most);
  }, SAMPLE_MS);
  return {
    close() {
      clearInterval(sampling);
      server.close();
      rmSync(path, { force: true });
    },
  };
}

/** What runs at a lower priority gives way: the thread of an Agave node that spins (`agave.ts`) takes nothing from a test. */
function coreTimes(): { readonly idle: number; readonly all: number } {
  let [idle, all] = [0, 0];
  for (const { times } of cpus()) {
    idle += times.idle + times.nice;
    all += times.user + times.nice + times.sys + times.idle + times.irq;
  }
  return { idle, all };
}
