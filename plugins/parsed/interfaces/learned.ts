/** What one call knows of interfaces: it chooses between those of its project, of the operator's folder, built-in ones and the chain's. */

import { nativeInterfaces } from '../../../src/solana/idl/native.ts';
import type { FindInterface } from '../../../src/solana/idl/parse-transaction.ts';
import type { BlockTime, DecodeCosts } from '../costs.ts';
import { FOREVER, interfaceAt, type Published, type Version } from './versions.ts';

/** Sources of interfaces, in order of preference. */
export const INTERFACE_SOURCES = ['project', 'folder', 'builtIn', 'chain'] as const;

export interface KnownVersion extends Version {
  readonly source: (typeof INTERFACE_SOURCES)[number];
}

/** The interfaces that a project has uploaded, by program. */
export type OwnInterfaces = ReadonlyMap<string, readonly Version[]>;

/** Reads the interfaces of a project; null: it has none. `mayBeOld`: what was read within the last second will do. */
export type OwnOf = (project: string, how?: { readonly mayBeOld: boolean }) => Promise<OwnInterfaces | null>;

/** The interfaces that one call has read: they stay here when other calls evict them from the cache. */
export interface Learned {
  /** Finds an interface among those that `learn` has read. */
  readonly find: FindInterface;
  /** All known versions of a program that may decode something, those of a source oldest first. */
  versionsOf(program: string): readonly KnownVersion[];
  /** A copy that prefers the interfaces of a project. `time`: decoding time that they may take per block. */
  with(own: OwnInterfaces, time?: BlockTime): Learned;
}

/** What a call uses of programs on the chain. */
export type KnownPrograms = Map<string, Published>;

interface Sources {
  readonly folder: ReadonlyMap<string, readonly Version[]>;
  readonly used: KnownPrograms;
  readonly costs: DecodeCosts;
}

/** `own`: the interfaces of the project that calls. */
export function createLearned(
  sources: Sources,
  own: OwnInterfaces = new Map(),
  time: BlockTime | null = null,
): Learned {
  const { folder, used, costs } = sources;
  return {
    with: (others, most) => createLearned(sources, others, most ?? null),
    find(program, slot) {
      // Before its first upload a project has the same interfaces as all others.
      const mine = own.get(program);
      const uploaded = mine === undefined ? null : interfaceAt(mine, slot);
      if (uploaded !== null) return costs.ofProject(uploaded, program, time);
      const versions = folder.get(program);
      if (versions !== undefined) return interfaceAt(versions, slot);
      const native = nativeInterfaces().get(program);
      if (native !== undefined) return native;
      const known = used.get(program);
      // Above the last reading nothing is known, whatever the newest version was.
      const one = known === undefined || slot > known.checkedSlot ? null : interfaceAt(known.versions, slot);
      return one === null ? null : costs.measured(one);
    },
    versionsOf(program) {
      const [files, native] = [folder.get(program), nativeInterfaces().get(program)];
      const as = (source: KnownVersion['source'], versions: readonly Version[] = []) =>
        versions.map(({ from, to, program: one }) => ({ from, to, program: one, source }));
      const uploads = as('project', own.get(program)).map(({ program: one, ...version }) => ({
        ...version,
        program: one === null ? null : costs.ofProject(one, program, time),
      }));
      if (files !== undefined) return [...uploads, ...as('folder', files)];
      if (native !== undefined) return [...uploads, ...as('builtIn', [{ from: 0, to: FOREVER, program: native }])];
      const published = as('chain', used.get(program)?.versions).map(({ program: one, ...version }) => ({
        ...version,
        program: one === null ? null : costs.measured(one),
      }));
      return [...uploads, ...published];
    },
  };
}
