import { existsSync } from 'node:fs';
import { type FileHandle, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Ledger } from '../../src/ledger/index.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../../src/lib/coded-error.ts';
import type { AmountForm } from '../../src/lib/parquet-columns.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import { makeFolder } from '../../src/runtime/make-folder.ts';
import { decodeBlockText } from '../../src/solana/decode/decode-block.ts';
import { CarError, type CarLink, createCarWriter, openCar } from './car.ts';
import { addBlock, addEpoch, type CarBlock, readBlocks } from './old-faithful.ts';
import { createParquetWriter } from './parquet.ts';

export type Format = 'car' | 'parquet';

/** First and last slot. */
export type Range = readonly [from: number, to: number];

export interface ExportOptions {
  readonly ledger: Pick<Ledger, 'finalSlot' | 'state' | 'block'>;
  readonly format: Format;
  /** How Parquet tables show amounts. */
  readonly amounts: AmountForm;
  /** All of it has to be final. */
  readonly range: Range;
  /** Slots of one file: files begin at multiples of it. */
  readonly slotsPerFile: number;
  /** Folder; made when it is missing. */
  readonly output: string;
  /** After each slot. */
  readonly onSlot?: (slot: number) => void;
}

export interface ExportResult {
  readonly blocks: number;
  readonly transactions: number;
  /** Parts of which at least one block is known. */
  readonly parts: number;
  /** Parts that an earlier run had completed. */
  readonly reused: number;
  /** Slots of which the ledger does not know whether they have a block, or whose block cannot be read or written. */
  readonly holes: readonly Range[];
}

/** Written last, beside the files of a part: the part is complete. */
interface Manifest {
  readonly format: Format;
  /** Absent: integers, or no tables. */
  readonly amounts?: AmountForm;
  readonly range: Range;
  readonly blocks: number;
  readonly transactions: number;
  readonly holes: readonly Range[];
  /** Name and bytes. */
  readonly files: Readonly<Record<string, number>>;
}

/** The files of one part while they are written. */
interface PartWriter {
  /** Nothing of the block is in the files when it throws CarError. Errors: also those of the file system. */
  add(block: ChainBlock): Promise<void>;
  end(): Promise<void>;
}

const PARTIAL = '.partial';

/**
 * Writes the final blocks of a range as files of other programs, one part of the range after the other: what was interrupted goes on with
 * the part it was at. Parts whose holes the ledger can fill by now are written again. Errors: LEDGER_EXPORT, those of the ledger.
 */
export async function exportBlocks(options: ExportOptions): Promise<ExportResult> {
  const { ledger, format, range, slotsPerFile, output } = options;
  if (range[1] > ledger.finalSlot)
    throw exportError(`slot ${range[1]} is not final yet: the newest final slot of the ledger is ${ledger.finalSlot}`);
  const done: Manifest[] = [];
  let reused = 0;
  try {
    makeFolder(output);
    for (let from = range[0]; from <= range[1]; ) {
      const to = Math.min(range[1], (Math.floor(from / slotsPerFile) + 1) * slotsPerFile - 1);
      const found = await readManifest(options, [from, to]);
      if (found !== null) reused += 1;
      done.push(found ?? (await writePart(options, [from, to])));
      options.onSlot?.(to);
      from = to + 1;
    }
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw exportError(`cannot write ${format} files to ${output}: ${messageOf(error)}`, error);
  }
  const sum = (of: (part: Manifest) => number) => done.reduce((total, part) => total + of(part), 0);
  return {
    blocks: sum((part) => part.blocks),
    transactions: sum((part) => part.transactions),
    reused,
    parts: done.filter(({ blocks }) => blocks > 0).length,
    holes: joined(done.flatMap(({ holes }) => holes)),
  };
}

const partFileName = ([from, to]: Range, format: Format) => `${from}-${to}.${format}`;

/** Manifest of a part that needs no work; null: export it. */
async function readManifest(
  { ledger, format, amounts, output }: ExportOptions,
  range: Range,
): Promise<Manifest | null> {
  const path = join(output, `${partFileName(range, format)}.json`);
  if (!existsSync(path)) return null;
  try {
    const manifest = JSON.parse(await readFile(path, 'utf8')) as Manifest;
    if (format === 'parquet' && (manifest.amounts ?? 'integer') !== amounts) return null;
    for (const [name, bytes] of Object.entries(manifest.files))
      if ((await stat(join(output, name))).size !== bytes) return null;
    for (const [from, to] of manifest.holes)
      for (let slot = from; slot <= to; slot++) if (ledger.state(slot) !== 'unknown') return null;
    return manifest;
  } catch {
    // Damaged, or of files that were removed.
    return null;
  }
}

async function writePart({ ledger, format, amounts, output, onSlot }: ExportOptions, range: Range): Promise<Manifest> {
  const name = partFileName(range, format);
  const names = format === 'car' ? [name] : PARQUET_TABLES.map((table) => `${range[0]}-${range[1]}.${table}.parquet`);
  const holes: number[] = [];
  const counts = { blocks: 0, transactions: 0 };
  const files: FileHandle[] = [];
  const partial = (of: string) => join(output, of + PARTIAL);
  // A part whose files are replaced is not complete.
  await rm(join(output, `${name}.json`), { force: true });
  try {
    for (const each of names) files.push(await open(partial(each), 'w', 0o644));
    const writer = format === 'car' ? carPart(files[0]!, range) : await createParquetWriter(files, amounts);
    for (let slot = range[0]; slot <= range[1]; slot++) {
      const state = ledger.state(slot);
      const block = state === 'block' ? await ledger.block(slot) : null;
      if (block !== null) {
        try {
          await writer.add(block);
          counts.blocks += 1;
          counts.transactions += block.transactions.length;
        } catch (error) {
          if (!(error instanceof CarError)) throw error;
          holes.push(slot);
        }
      } else if (state !== 'skipped') holes.push(slot);
      onSlot?.(slot);
    }
    await writer.end();
    for (const file of files) await file.datasync();
  } finally {
    for (const file of files) await file.close();
  }
  const sizes: Record<string, number> = {};
  for (const each of names) {
    // A part without blocks has no files.
    if (counts.blocks === 0) await rm(partial(each));
    else {
      await rename(partial(each), join(output, each));
      sizes[each] = (await stat(join(output, each))).size;
    }
  }
  const ranges = joined(holes.map((slot) => [slot, slot] as const));
  const form = format === 'parquet' ? { amounts } : {};
  const manifest: Manifest = { format, ...form, range, ...counts, holes: ranges, files: sizes };
  if (counts.blocks > 0) await writeWhole(join(output, `${name}.json`), `${JSON.stringify(manifest)}\n`);
  return manifest;
}

/** The order of the files of a part. */
export const PARQUET_TABLES = ['blocks', 'transactions', 'instructions', 'token_balances'] as const;

async function writeWhole(path: string, text: string): Promise<void> {
  const file = await open(path + PARTIAL, 'w', 0o644);
  try {
    await file.writeFile(text);
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(path + PARTIAL, path);
}

/** Ascending ranges, neighbours joined. */
function joined(ranges: readonly Range[]): readonly Range[] {
  const found: [number, number][] = [];
  for (const [from, to] of ranges) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === from - 1) last[1] = to;
    else found.push([from, to]);
  }
  return found;
}

function carPart(file: FileHandle, [from, to]: Range): PartWriter {
  const car = createCarWriter(file);
  const blocks: CarLink[] = [];
  return {
    async add(block) {
      try {
        blocks.push(addBlock(car, block));
      } catch (error) {
        car.forget();
        throw error;
      }
      await car.flush();
    },
    async end() {
      await car.end(addEpoch(car, from, to, blocks));
    },
  };
}

const exportError = (what: string, cause?: unknown) =>
  new CodedError('LEDGER_EXPORT', what, {
    exitCode: EXIT.temporary,
    retryable: true,
    ...(cause === undefined ? {} : { cause }),
  });

// ----------------------------------------------------------------------------------------------------------------- import

export interface ImportOptions {
  /** Open for writing, with the bytes that it may still take. */
  readonly ledger: Pick<Ledger, 'finalSlot' | 'newest' | 'state' | 'header' | 'append' | 'finalize'>;
  readonly roomBytes: () => number;
  /** CAR files, in the order of their slots. */
  readonly files: readonly string[];
  readonly onBlock?: (slot: number) => void;
}

export interface ImportResult {
  readonly blocks: number;
  /** Blocks that the ledger had before. */
  readonly known: number;
  /** Blocks that cannot be read or that nothing connects: they stay unknown. */
  readonly refused: readonly { readonly slot: number; readonly reason: string }[];
}

/** Blocks after which the ledger is told that they are final; more are read again after a crash. */
const FINALIZE_EVERY = 100;
/** How far above a block its successor is looked for. */
const NEAR_SLOTS = 64;

/**
 * Adds the blocks of CAR files to a ledger. Every node is compared with its hash, every block is decoded, and has to follow its parent by
 * hash, whether that is in the files or in the ledger. Errors: LEDGER_IMPORT, those of the ledger.
 */
export async function importBlocks({ ledger, roomBytes, files, onBlock }: ImportOptions): Promise<ImportResult> {
  const result = { blocks: 0, known: 0, refused: [] as { slot: number; reason: string }[] };
  let last: { readonly slot: number; readonly blockhash: string } | null = null;
  let unmarked = 0;

  async function add(stored: CarBlock): Promise<void> {
    const { slot, parentSlot, blockhash } = stored;
    const known = (last?.slot === parentSlot ? last.blockhash : (await ledger.header(parentSlot))?.blockhash) ?? null;
    last = { slot, blockhash };
    const previous = stored.previousBlockhash ?? known;
    if (previous === null) {
      result.refused.push({ slot, reason: `block ${parentSlot} is missing, and its hash is not in the file` });
      return;
    }
    if (known !== null && known !== previous) throw importError(`block ${slot} does not follow block ${parentSlot}`);
    await compare(stored);
    let block: ChainBlock;
    try {
      block = decodeBlockText(stored.slot, stored.text(previous));
    } catch (error) {
      result.refused.push({ slot, reason: messageOf(error) });
      return;
    }
    if ((await ledger.header(slot)) === null) result.blocks += 1;
    else result.known += 1;
    if (roomBytes() <= 0)
      throw importError(
        `the ledger is full at slot ${slot}: raise ledger.retain.bytes, or old blocks would be removed`,
      );
    await ledger.append(block);
    unmarked += 1;
    if (unmarked >= FINALIZE_EVERY) await mark(slot);
  }

  async function mark(slot: number): Promise<void> {
    if (slot > ledger.finalSlot) await ledger.finalize(slot);
    unmarked = 0;
  }

  /** Checks a block against what the ledger has at this slot and around it; throws when they differ. */
  async function compare({ slot, parentSlot, blockhash }: CarBlock): Promise<void> {
    const ours = await ledger.header(slot);
    if (ours !== null && ours.blockhash !== blockhash) throw importError(`the ledger has another block ${slot}`);
    if (slot > ledger.finalSlot && ours === null && ledger.newest() > ledger.finalSlot && unmarked === 0)
      throw importError(`block ${slot} is above blocks of the ledger that are not final yet`);
    if (ledger.state(slot) === 'skipped' || ledger.newest(slot - 1) > parentSlot)
      throw importError(`block ${slot} contradicts the ledger: it is of another fork or chain`);
    for (let next = slot + 1; next <= slot + NEAR_SLOTS; next++) {
      if (ledger.state(next) !== 'block') continue;
      const header = await ledger.header(next);
      if (header?.parentSlot === slot && header.previousBlockhash !== blockhash)
        throw importError(`block ${next} of the ledger does not follow block ${slot}`);
      return;
    }
  }

  for (const path of files) {
    let file: FileHandle | null = null;
    try {
      file = await open(path, 'r');
      for await (const stored of readBlocks(await openCar(file))) {
        await add(stored);
        onBlock?.(stored.slot);
      }
    } catch (error) {
      if (error instanceof CodedError) throw error;
      throw importError(`${path}: ${messageOf(error)}`, error);
    } finally {
      if (last !== null) await mark((last as { slot: number }).slot);
      await file?.close();
    }
  }
  return result;
}

const importError = (what: string, cause?: unknown) =>
  new CodedError('LEDGER_IMPORT', what, { exitCode: EXIT.config, ...(cause === undefined ? {} : { cause }) });

/** The CAR files of a path: itself, or those of a folder by the number that they begin with. Errors: LEDGER_IMPORT. */
export async function carFilesAt(path: string): Promise<readonly string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter((name) => name.endsWith('.car'));
    const number = (name: string) => Number(/\d+/.exec(name)?.[0] ?? 0);
    const found = names.toSorted((a, b) => number(a) - number(b) || (a < b ? -1 : 1)).map((name) => join(path, name));
    if (found.length > 0) return found;
    throw importError(`there are no files *.car in ${path}`);
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw importError(codeOf(error) === 'ENOENT' ? `there is no ${path}` : `cannot read ${path}: ${messageOf(error)}`);
  }
}
