import type { Worker } from 'node:worker_threads';
import { messageOf } from '../lib/coded-error.ts';
import type { BlockText, ChainBlock } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/telemetry.ts';
import { startThread } from '../runtime/start-thread.ts';
import { type Dictionary, writeDictionary } from './dictionary.ts';
import type { Payload } from './payload.ts';
import { type BlockRows, type PackedIndexRows, unpackRows } from './rows.ts';

/**
 * Encodes blocks before it is their turn, on threads: while a chain catches up, the blocks behind the next one are here already. At the tip
 * there is one block at a time, and no thread.
 */
export interface Ahead {
  /** False when there is enough to do. A small block is passed over. */
  begin(block: ChainBlock, dictionary: Dictionary): boolean;
  /** What was made of this very block; null when it was passed over, is of another dictionary, or when its thread failed. */
  take(block: ChainBlock, dictionary: Dictionary): Promise<Encoded | null>;
  close(): Promise<void>;
}

export interface Encoded {
  readonly payload: Payload;
  readonly rows: BlockRows | null;
}

export interface EncodeRequest {
  readonly slot: number;
  /** JSON text of the block. */
  readonly text: Uint8Array;
  readonly hasIndex: boolean;
  /** Bytes of `writeDictionary`, empty for the empty dictionary; null: the one of the previous request. */
  readonly dictionary: Uint8Array | null;
}

export interface EncodeAnswer {
  readonly payload: Payload;
  readonly rows: PackedIndexRows | null;
  /** CRC-32 of the dictionary that was used. */
  readonly dictionary: number;
}

export interface EncodeFailure {
  readonly slot: number;
  readonly error: string;
}

interface AheadOptions {
  /** Most at once; 0: none. */
  readonly threads: number;
  readonly hasIndex: boolean;
  readonly chain: ChainId;
  readonly clock: Clock;
  readonly log: Log;
  /** For tests that let a thread fail. */
  readonly start?: () => Worker;
}

/** Smaller blocks take less time than their way to a thread and back. */
const MIN_TRANSACTIONS = 48;
const PER_THREAD = 2;
/** Threads without work end. */
const IDLE_MS = 30_000;

interface Job {
  readonly slot: number;
  /** Another node may send the same block with another text. */
  readonly answer: BlockText;
  /** CRC-32 of the dictionary. */
  readonly dictionary: number;
  readonly encoded: Promise<Encoded | null>;
}

interface Encoder {
  readonly worker: Worker;
  /** CRC-32 of the dictionary that it has; -1 for none. */
  dictionary: number;
  /** In the order in which they were sent. */
  readonly waiting: ((answer: EncodeAnswer | null) => void)[];
}

export function createAhead({ threads, hasIndex, chain, clock, log, ...given }: AheadOptions): Ahead {
  const entry = new URL(import.meta.url.endsWith('.ts') ? './encode-thread.ts' : './encode-thread.js', import.meta.url);
  /** By blockhash. */
  const jobs = new Map<string, Job>();
  let encoders: Encoder[] = [];
  let cancelIdle: (() => void) | null = null;
  let isOff = threads === 0;

  function turnOff(reason: string): void {
    isOff = true;
    const text = 'a thread that encodes blocks of the ledger failed: blocks are encoded one by one from now on';
    log.error({ chain, reason }, text);
  }

  /** Throws where the system has no thread left. */
  function start(): Encoder {
    const worker = given.start?.() ?? startThread(entry, null);
    const encoder: Encoder = { worker, dictionary: -1, waiting: [] };
    const failed = (reason: string) => {
      if (!encoders.includes(encoder)) return;
      encoders = encoders.filter((each) => each !== encoder);
      for (const answer of encoder.waiting.splice(0)) answer(null);
      turnOff(reason);
    };
    worker.on('message', (answer: EncodeAnswer | EncodeFailure) => {
      const next = encoder.waiting.shift();
      // A thread without work does not keep the process.
      if (encoder.waiting.length === 0) worker.unref();
      if ('error' in answer) log.warn({ chain, ...answer }, 'a block of the ledger could not be encoded ahead');
      next?.('error' in answer ? null : answer);
    });
    worker.on('error', (error) => failed(messageOf(error)));
    worker.on('exit', (code) => failed(`exit code ${code}`));
    encoders.push(encoder);
    return encoder;
  }

  /** The one with the least to do. */
  function next(): Encoder {
    const [least] = encoders.toSorted((a, b) => a.waiting.length - b.waiting.length);
    return least === undefined || (least.waiting.length > 0 && encoders.length < threads) ? start() : least;
  }

  async function end(): Promise<void> {
    const ended = encoders;
    encoders = [];
    for (const { waiting } of ended) for (const answer of waiting.splice(0)) answer(null);
    await Promise.all(ended.map(({ worker }) => worker.terminate()));
  }

  function endWhenIdle(): void {
    cancelIdle?.();
    cancelIdle = clock.timeout(IDLE_MS, () => {
      cancelIdle = null;
      if (encoders.every(({ waiting }) => waiting.length === 0)) void end();
      else endWhenIdle();
    });
  }

  return {
    begin({ slot, blockhash, answer, transactions }, dictionary) {
      if (isOff) return false;
      if (answer === undefined || transactions.length < MIN_TRANSACTIONS || jobs.has(blockhash)) return true;
      if (jobs.size >= threads * PER_THREAD) return false;
      let encoder: Encoder;
      try {
        encoder = next();
      } catch (error) {
        turnOff(messageOf(error));
        return false;
      }
      const text = new Uint8Array(answer.text());
      const bytes = encoder.dictionary === dictionary.crc ? null : dictionaryBytes(dictionary);
      encoder.dictionary = dictionary.crc;
      const encoded = new Promise<EncodeAnswer | null>((resolve) => encoder.waiting.push(resolve));
      encoder.worker.ref();
      encoder.worker.postMessage({ slot, text, hasIndex, dictionary: bytes } satisfies EncodeRequest, [text.buffer]);
      jobs.set(blockhash, {
        slot,
        answer,
        dictionary: dictionary.crc,
        encoded: encoded.then((made) => {
          if (made === null || made.dictionary !== dictionary.crc) return null;
          return { payload: made.payload, rows: made.rows === null ? null : unpackRows(made.rows) };
        }),
      });
      endWhenIdle();
      return true;
    },
    async take({ slot, blockhash, answer }, dictionary) {
      const job = jobs.get(blockhash);
      // What is below it was left by a fork, or has been written.
      for (const [hash, each] of jobs) if (each.slot <= slot) jobs.delete(hash);
      return job?.answer === answer && job?.dictionary === dictionary.crc ? await job.encoded : null;
    },
    async close() {
      isOff = true;
      cancelIdle?.();
      jobs.clear();
      await end();
    },
  };
}

const dictionaryBytes = (dictionary: Dictionary) =>
  new Uint8Array(dictionary.crc === 0 ? Buffer.alloc(0) : writeDictionary(dictionary));
