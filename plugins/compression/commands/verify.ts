import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { CodedError, type Command, codeOf } from '../../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { TreeReader } from '../chain/tree-reader.ts';
import { walkTree } from '../chain/walk-tree.ts';
import { type Db, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';

interface VerifiedTree {
  readonly tree: string;
  readonly state: string;
  readonly seq: number;
  readonly root: string;
  readonly leaves: number;
  readonly pages: number;
  /** Whether the chain has this root for this sequence number. */
  readonly chain: 'same' | 'different' | 'too-old' | 'behind' | 'unknown';
  readonly chainSeq: number | null;
  readonly faults: readonly string[];
}

const JSON_OPTION = { flags: '--json', description: 'one JSON document' };

/** `compression verify`: trees against their rows, their own nodes, and the chain. */
export function verifyCommand(parts: { readonly hashing: Hashing; readonly reader: TreeReader | null }): Command {
  return {
    path: ['compression', 'verify'],
    summary:
      'walk Merkle trees: every stored page, every node, the leaves against the rows, the root against the chain',
    options: [{ flags: '--tree <key>', description: 'only this one; without it all' }, JSON_OPTION],
    async run(options, io) {
      const { slot, value } = await readAtOneSlot(io.store, async (db) => {
        const results: VerifiedTree[] = [];
        const rows = await chosen(db, options['tree']);
        const progress = io.progress?.({ what: 'verify', unit: 'trees', total: rows.length });
        for (const [i, row] of rows.entries()) {
          results.push(await verify(db, parts, row));
          progress?.update(i + 1);
        }
        progress?.end();
        return results;
      });
      if (options['json'] === true) io.json({ slot, trees: value });
      else for (const line of value.flatMap(linesOf)) io.line(line);
      const wrong = value.filter(({ faults, chain }) => faults.length > 0 || chain === 'different');
      if (wrong.length === 0) return;
      const names = wrong.map(({ tree }) => tree).join(', ');
      throw new CodedError('COMPRESSION_TREE_WRONG', `not as they should be: ${names}`, { exitCode: 70 });
    },
  };
}

async function chosen(db: Db, wanted: string | boolean | undefined): Promise<TreeRow[]> {
  const all = db
    .selectFrom('compression_trees')
    .selectAll()
    .where('type', 'in', Object.values(TREE_TYPE))
    .orderBy('id');
  if (typeof wanted !== 'string') return await all.execute();
  const key = decode32(wanted);
  const rows = key === null ? [] : await all.where('key', '=', key).execute();
  if (rows.length > 0) return rows;
  throw new CodedError('COMPRESSION_USAGE', `there is no tree ${wanted}`, { exitCode: 64 });
}

async function verify(
  db: Db,
  { hashing, reader }: { readonly hashing: Hashing; readonly reader: TreeReader | null },
  row: TreeRow,
): Promise<VerifiedTree> {
  const { pages, leaves, faults } = await walkTree(db, hashing, row);
  const { chain, chainSeq } = await compare(reader, row);
  return {
    ...{ tree: encode32(row.key), state: row.status, seq: row.seq, root: encode32(row.root) },
    ...{ leaves, pages, chain, chainSeq, faults },
  };
}

async function compare(reader: TreeReader | null, row: TreeRow): Promise<Pick<VerifiedTree, 'chain' | 'chainSeq'>> {
  if (reader === null) return { chain: 'unknown', chainSeq: null };
  try {
    const capacity = row.root_capacity ?? (await capacityOf(reader, row));
    const found = capacity === null ? null : await reader.rootAt(row, row.seq, capacity);
    if (found === null || capacity === null || found.root === null) return { chain: 'unknown', chainSeq: null };
    const chainSeq = found.seq;
    // An upstream that is behind us says nothing.
    if (chainSeq < row.seq) return { chain: 'behind', chainSeq };
    if (chainSeq - row.seq >= capacity / 2) return { chain: 'too-old', chainSeq };
    return { chain: equalBytes(found.root, row.root) ? 'same' : 'different', chainSeq };
  } catch (error) {
    if (codeOf(error)?.startsWith('CHAIN_') !== true) throw error;
    return { chain: 'unknown', chainSeq: null };
  }
}

async function capacityOf(reader: TreeReader, { key }: TreeRow): Promise<number | null> {
  const answer = await reader.one(key);
  return answer.kind === 'tree' ? answer.tree.rootCapacity : null;
}

const CHAIN_WORDS: Readonly<Record<VerifiedTree['chain'], string>> = {
  same: 'the root is the chain’s',
  different: 'the chain has another root',
  'too-old': 'the chain does not keep a root that old',
  behind: 'the upstream is behind',
  unknown: 'not compared with the chain',
};

function linesOf({ tree, state, seq, leaves, pages, chain, faults }: VerifiedTree): string[] {
  const verdict = faults.length === 0 ? 'sound' : 'DAMAGED';
  const head = `${tree}  ${state}  seq ${seq}  ${leaves} leaves in ${pages} pages  ${verdict}; ${CHAIN_WORDS[chain]}`;
  return [head, ...faults.map((fault) => `  ${fault}`)];
}
