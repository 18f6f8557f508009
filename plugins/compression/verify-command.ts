import { decode32, encode32 } from '../../src/lib/base58.ts';
import { equalBytes } from '../../src/lib/bytes.ts';
import { EXIT } from '../../src/lib/coded-error.ts';
import { CodedError, type Command, codeOf } from '../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../src/solana/compression/events.ts';
import { GROUP_LEVELS, GROUP_WIDTH, HASH_BYTES, nodeOffset } from '../../src/solana/merkle/path.ts';
import { COMPRESSION_COMMANDS } from './command-list.ts';
import { type CompressionDb, readAtOneSlot, type TreeRow } from './store/tables.ts';
import type { Hashing } from './trees/hashing.ts';
import { DAMAGED, openPage, pageId, pageRange } from './trees/page-book.ts';
import { readStoredLeaves } from './trees/rebuild.ts';
import type { TreeReader } from './trees/tree-reader.ts';

interface VerifiedTree {
  readonly tree: string;
  readonly state: string;
  readonly seq: number;
  readonly root: string;
  readonly leaves: number;
  readonly pages: number;
  /** Whether the chain has this root at this sequence number. */
  readonly chain: 'same' | 'different' | 'too-old' | 'behind' | 'unknown';
  readonly chainSeq: number | null;
  readonly faults: readonly string[];
}

/** `compression verify`: checks trees against their rows, their own nodes, and the chain. */
export function verifyCommand(parts: { readonly hashing: Hashing; readonly reader: TreeReader | null }): Command {
  return {
    ...COMPRESSION_COMMANDS.verify,
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
      throw new CodedError('COMPRESSION_TREE_WRONG', `failed verification: ${names}`, { exitCode: EXIT.bug });
    },
  };
}

async function chosen(db: CompressionDb, wanted: string | boolean | undefined): Promise<TreeRow[]> {
  const all = db
    .selectFrom('compression_trees')
    .selectAll()
    .where('type', 'in', Object.values(TREE_TYPE))
    .orderBy('id');
  if (typeof wanted !== 'string') return await all.execute();
  const key = decode32(wanted);
  const rows = key === null ? [] : await all.where('key', '=', key).execute();
  if (rows.length > 0) return rows;
  throw new CodedError('COMPRESSION_USAGE', `there is no tree ${wanted}`, { exitCode: EXIT.usage });
}

async function verify(
  db: CompressionDb,
  { hashing, reader }: { readonly hashing: Hashing; readonly reader: TreeReader | null },
  row: TreeRow,
): Promise<VerifiedTree> {
  const { pages, leaves, faults } = await walkTree(db, hashing, row);
  const { chain, chainSeq } = await compare(reader, row);
  return {
    tree: encode32(row.key),
    state: row.status,
    seq: row.seq,
    root: encode32(row.root),
    leaves,
    pages,
    chain,
    chainSeq,
    faults,
  };
}

async function compare(reader: TreeReader | null, row: TreeRow): Promise<Pick<VerifiedTree, 'chain' | 'chainSeq'>> {
  if (reader === null) return { chain: 'unknown', chainSeq: null };
  try {
    const capacity = row.root_capacity ?? (await capacityOf(reader, row));
    const found = capacity === null ? null : await reader.rootAt(row, row.seq, capacity);
    if (found === null || capacity === null || found.root === null) return { chain: 'unknown', chainSeq: null };
    const chainSeq = found.seq;
    // An upstream that is behind us gives no verdict.
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

/** Result of a walk over a stored tree; `faults` are messages. */
export interface TreeWalk {
  readonly pages: number;
  readonly leaves: number;
  readonly faults: readonly string[];
}

const PAGES_AT_ONCE = 64;
const LEAVES_AT_ONCE = 512;
const MAX_FAULTS = 20;

/**
 * Walks all pages of a tree from the leaves up and checks that every page is undamaged, every node is the hash of its two children,
 * the top of a page is in the page above or is the root, and the leaves match the rows. Errors: those of the store.
 */
export async function walkTree(db: CompressionDb, hashing: Hashing, tree: TreeRow): Promise<TreeWalk> {
  const faults: string[] = [];
  const fault = (text: string) => void (faults.length < MAX_FAULTS && faults.push(text));
  /** Tops of the group below, by page number. */
  let tops = new Map<number, Uint8Array>();
  let count = 0;
  const groups = Math.ceil(tree.height / GROUP_LEVELS);
  const leafNodes = createLeafCheck(db, hashing, tree, fault);
  for (let group = 0; group < groups; group += 1) {
    const above = new Map<number, Uint8Array>();
    for await (const page of pagesOf(db, tree, group)) {
      count += 1;
      if (page.nodes === null) {
        fault(`page ${page.number} of group ${group} is not what was written`);
        continue;
      }
      if (group === 0) await leafNodes.page(page.number, page.nodes);
      else checkBelow(tops, page.number, page.nodes, hashing, group, fault);
      const top = checkInside(hashing, page.nodes, Math.min(GROUP_LEVELS, tree.height - group * GROUP_LEVELS), () =>
        fault(`page ${page.number} of group ${group} has a node that is not the hash of those below it`),
      );
      above.set(page.number, top);
    }
    for (const [number, top] of tops)
      if (!isZero(hashing, group * GROUP_LEVELS, top))
        fault(`page ${number} below group ${group} has no page above it`);
    tops = above;
  }
  await leafNodes.end();
  const root = tops.get(0) ?? zeroAt(hashing, tree.height);
  if (!equalBytes(root, tree.root)) fault('its nodes lead to another root than the stored one');
  return { pages: count, leaves: leafNodes.count(), faults };
}

interface StoredPage {
  readonly number: number;
  /** Null when the page is damaged. */
  readonly nodes: Uint8Array | null;
}

async function* pagesOf(db: CompressionDb, { id }: TreeRow, group: number): AsyncGenerator<StoredPage> {
  const base = pageId(id, group * 2 ** 34);
  const end = Math.min(pageId(id, (group + 1) * 2 ** 34) - 1, pageRange(id).to);
  for (let from = base; ; ) {
    const rows = await db
      .selectFrom('compression_pages')
      .select(['id', 'bytes'])
      .where('id', '>=', from)
      .where('id', '<=', end)
      .orderBy('id')
      .limit(PAGES_AT_ONCE)
      .execute();
    for (const row of rows) {
      const nodes = openPage(row.bytes);
      yield { number: row.id - base, nodes: nodes === DAMAGED ? null : nodes };
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGES_AT_ONCE) return;
    from = last.id + 1;
  }
}

const nodeAt = (nodes: Uint8Array, depth: number, index: number): Uint8Array => {
  const offset = nodeOffset(depth, index);
  return nodes.subarray(offset, offset + HASH_BYTES);
};

const zeroAt = ({ zeros }: Hashing, level: number): Uint8Array =>
  zeros.subarray(level * HASH_BYTES, (level + 1) * HASH_BYTES);

const isZero = (hashing: Hashing, level: number, node: Uint8Array): boolean => equalBytes(node, zeroAt(hashing, level));

/** Hashes all pairs of a page. Returns the node above it. */
function checkInside({ poseidon }: Hashing, nodes: Uint8Array, levels: number, fault: () => void): Uint8Array {
  const hashes = new Uint8Array((GROUP_WIDTH / 2) * HASH_BYTES);
  let top: Uint8Array = new Uint8Array(HASH_BYTES);
  for (let depth = 0; depth < levels; depth += 1) {
    const width = GROUP_WIDTH >> depth;
    const below = nodes.subarray(nodeOffset(depth, 0), nodeOffset(depth, 0) + width * HASH_BYTES);
    poseidon.hashPairs(below, 0, hashes, 0, width / 2);
    if (depth + 1 < levels) {
      const stored = nodes.subarray(nodeOffset(depth + 1, 0), nodeOffset(depth + 1, 0) + (width / 2) * HASH_BYTES);
      if (Buffer.compare(stored, hashes.subarray(0, (width / 2) * HASH_BYTES)) !== 0) fault();
    }
    top = hashes.slice(0, HASH_BYTES);
  }
  return top;
}

/** The lowest nodes of a page are the tops of the pages below it, or empty. */
function checkBelow(
  tops: Map<number, Uint8Array>,
  number: number,
  nodes: Uint8Array,
  hashing: Hashing,
  group: number,
  fault: (text: string) => void,
): void {
  for (let i = 0; i < GROUP_WIDTH; i += 1) {
    const below = number * GROUP_WIDTH + i;
    const top = tops.get(below) ?? zeroAt(hashing, group * GROUP_LEVELS);
    if (!equalBytes(nodeAt(nodes, 0, i), top))
      fault(`node ${i} of page ${number} of group ${group} is not the top of the page below it`);
    tops.delete(below);
  }
}

/** Compares the leaves of pages with those of the rows; both are in ascending order. */
function createLeafCheck(db: CompressionDb, hashing: Hashing, tree: TreeRow, fault: (text: string) => void) {
  let next = 0;
  let count = 0;
  let rows: Awaited<ReturnType<typeof readStoredLeaves>> = [];
  let isDone = false;

  async function peek(): Promise<(typeof rows)[number] | null> {
    if (rows.length === 0 && !isDone) {
      rows = [...(await readStoredLeaves(db, hashing, tree, next, LEAVES_AT_ONCE))].reverse();
      isDone = rows.length === 0;
      next = (rows[0]?.index ?? 0) + 1;
    }
    return rows.at(-1) ?? null;
  }
  const empty = zeroAt(hashing, 0);
  return {
    count: () => count,
    async page(number: number, nodes: Uint8Array): Promise<void> {
      const first = number * GROUP_WIDTH;
      for (let i = 0; i < GROUP_WIDTH; i += 1) {
        let expected: Uint8Array = empty;
        for (let row = await peek(); row !== null && row.index <= first + i; row = await peek()) {
          if (row.index < first) fault(`leaf ${row.index} is in no page`);
          else expected = row.hash;
          count += 1;
          rows.pop();
        }
        if (!equalBytes(nodeAt(nodes, 0, i), expected)) fault(`leaf ${first + i} is not that of the rows`);
      }
    },
    async end(): Promise<void> {
      for (let row = await peek(); row !== null; row = await peek()) {
        fault(`leaf ${row.index} is in no page`);
        count += 1;
        rows.pop();
      }
    },
  };
}
