import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { decode32 } from '../../../src/lib/base58.ts';
import { type Log, messageOf } from '../../../src/plugin/plugin.ts';
import { MAX_IDL_BYTES, type ProgramInterface, readIdl } from '../../../src/solana/idl/read-idl.ts';
import { FOREVER, type Version } from './versions.ts';

/** The interfaces in the operator's folder: `PROGRAM.json`, or `PROGRAM@SLOT.json` for one that is valid from a slot on. */
export class InterfaceFolder {
  private readonly path: string | null;
  private readonly log: Log;
  /** Name, size, time and inode of each file at the last reading. */
  private state = '';
  private versions: ReadonlyMap<string, readonly Version[]> = new Map();

  constructor(path: string | null, log: Log) {
    this.path = path;
    this.log = log;
  }

  /** What the last reading found, by program; never changed afterwards. */
  get byProgram(): ReadonlyMap<string, readonly Version[]> {
    return this.versions;
  }

  /** Reads the folder again if it has changed. What cannot be read is logged, and the last reading stays. */
  async read(): Promise<void> {
    try {
      if (this.path !== null) await this.readFrom(this.path);
    } catch (error) {
      this.log.warn({ error: messageOf(error) }, 'the folder of interfaces cannot be read');
    }
  }

  private async readFrom(path: string): Promise<void> {
    const names = (await readdir(path)).filter((name) => FILE.test(name)).sort();
    const states = await Promise.all(names.map(async (name) => fileState(join(path, name))));
    const state = names.map((name, at) => `${name} ${states[at]}`).join('\n');
    if (state === this.state) return;
    const found = new Map<string, { from: number; program: ProgramInterface }[]>();
    for (const name of names) {
      const [, program, slot = '0'] = FILE.exec(name)!;
      if (decode32(program!) === null) continue;
      const read = await readIdlFile(join(path, name));
      if (read === null) {
        this.log.warn({ file: name }, 'the file contains no valid interface');
        continue;
      }
      const list = found.get(program!) ?? [];
      list.push({ from: Number(slot), program: read });
      found.set(program!, list);
    }
    this.versions = new Map(Array.from(found, ([program, list]) => [program, inOrder(list)]));
    this.state = state;
    this.log.info({ interfaces: this.versions.size }, 'the folder of interfaces was read');
  }
}

const FILE = /^([1-9A-HJ-NP-Za-km-z]{32,44})(?:@(\d{1,15}))?\.json$/;

async function fileState(path: string): Promise<string> {
  const { size, mtimeMs, ino } = await stat(path);
  return `${size} ${mtimeMs} ${ino}`;
}

async function readIdlFile(path: string): Promise<ProgramInterface | null> {
  const { size } = await stat(path);
  return size > MAX_IDL_BYTES ? null : readIdl(await readFile(path, 'utf8'));
}

function inOrder(list: readonly { readonly from: number; readonly program: ProgramInterface }[]): readonly Version[] {
  const sorted = [...list].sort((left, right) => left.from - right.from);
  return sorted.map(({ from, program }, index) => ({ from, to: sorted[index + 1]?.from ?? FOREVER, program }));
}
