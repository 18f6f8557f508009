import { write } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { codeOf, messageOf } from '../../../src/lib/coded-error.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import type { OpenSink, SinkBatch, SinkKind, SinkPosition, SinkTarget } from '../../../src/ports/sink.ts';
import { refused, unreachable } from '../errors.ts';
import { sinkPositionOf } from './manifest.ts';
import { lineOf } from './ndjson.ts';

/**
 * Rows as lines of JSON on standard output, for a program that reads them there. It keeps the position: a line in a file of its own, written together
 * with the rows. A batch begins with a line `begin` and ends with a line `position`.
 */
export function stdoutKind(descriptor = 1): SinkKind {
  // What this process has written: the reader may be behind.
  const written = new Map<string, readonly SinkPosition[]>();
  return {
    kind: 'stdout',
    batch: { slots: 64, seconds: 0 },
    async open(sink) {
      const positions = written.get(sink.name) ?? (await keptPositions(sink));
      return createTarget({ sink, descriptor, positions, keep: (now) => void written.set(sink.name, now) });
    },
  };
}

/** `-`: nobody keeps a position. */
async function keptPositions({ name, target }: OpenSink): Promise<readonly SinkPosition[]> {
  if (target === '-') return [];
  if (!isAbsolute(target)) throw refused(`sink ${name}: the target must be - or the absolute path of a file`);
  let text: string;
  try {
    text = await readFile(target, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw unreachable(`sink ${name}: ${messageOf(error)}`, error);
  }
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => positionIn(name, line));
}

function positionIn(name: string, line: string): SinkPosition {
  const value: unknown = JSON.parse(line);
  const isPosition =
    isPlainObject(value) &&
    typeof value['part'] === 'string' &&
    typeof value['blockhash'] === 'string' &&
    Number.isSafeInteger(value['first']) &&
    Number.isSafeInteger(value['last']);
  if (!isPosition) throw refused(`sink ${name}: its file has a line that is no position`);
  return sinkPositionOf(value as unknown as SinkPosition);
}

interface TargetParts {
  readonly sink: OpenSink;
  readonly descriptor: number;
  readonly positions: readonly SinkPosition[];
  keep(positions: readonly SinkPosition[]): void;
}

const writeTo = promisify(write);
const FULL_MS = 10;
const CHUNK_CHARACTERS = 262_144;

function createTarget({ sink, descriptor, positions: known, keep }: TargetParts): SinkTarget {
  let positions = known;

  async function send(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) {
      try {
        at += (await writeTo(descriptor, bytes, at)).bytesWritten;
      } catch (error) {
        // The reader of a pipe is slower: it has not taken what was there.
        if (codeOf(error) !== 'EAGAIN') throw unreachable(`sink ${sink.name}: ${messageOf(error)}`, error);
        await sleep(FULL_MS);
      }
    }
  }

  return {
    positions: async () => positions,
    async write({ position, first, rows }: SinkBatch) {
      let text = `${JSON.stringify({ table: 'begin', part: position.part, from: first })}\n`;
      for (const table of sink.tables)
        for (const row of rows.get(table.name) ?? []) {
          text += `{"table":"${table.name}",${lineOf(table, row).slice(1)}\n`;
          if (text.length < CHUNK_CHARACTERS) continue;
          await send(text);
          text = '';
        }
      await send(`${text}${JSON.stringify({ table: 'position', ...position })}\n`);
      positions = [...positions.filter(({ part }) => part !== position.part), position];
      keep(positions);
      return position;
    },
    close: () => Promise.resolve(),
  };
}
