import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { type AddressLabel, readLabel } from './label.ts';

export interface LabelFile {
  readonly labels: readonly AddressLabel[];
  /** Lines that are no label; empty ones and those that begin with `#` do not count. */
  readonly malformed: number;
  /** Number of the first of them, from 1, or null. */
  readonly firstMalformedLine: number | null;
  /** Labels beyond the limit. */
  readonly leftOut: number;
}

/** Reads a label file line by line, so that a large one holds up nobody. Rejects when it cannot be read. */
export async function readLabelFile(path: string, limit: number): Promise<LabelFile> {
  const labels: AddressLabel[] = [];
  let [malformed, leftOut, number] = [0, 0, 0];
  let firstMalformedLine: number | null = null;
  const lines = createInterface({ input: createReadStream(path, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY });
  for await (const line of lines) {
    number += 1;
    const text = (number === 1 ? line.replace(/^\ufeff/, '') : line).trim();
    if (text === '' || text.startsWith('#')) continue;
    const label = readLabel(text);
    if (label === null) {
      malformed += 1;
      firstMalformedLine ??= number;
    } else if (labels.length >= limit) {
      leftOut += 1;
    } else {
      labels.push(label);
    }
  }
  return { labels, malformed, firstMalformedLine, leftOut };
}
