import { decode, decode32, encode64 } from '../../src/lib/base58.ts';
import { RpcError } from '../../src/plugin/plugin.ts';
import type { CompressedAssets } from '../../src/ports/compressed-assets.ts';
import type { DasConfig } from './config.ts';
import { badCursor, type DasRequest, readKey, readPaging } from './params.ts';

/** The transactions that changed a compressed asset, with the names of their instructions. Null when the asset is not in a followed tree. */
export async function assetSignatures(
  question: DasRequest,
  compressed: CompressedAssets,
  { dialect }: Pick<DasConfig, 'dialect'>,
): Promise<object | null> {
  const leaf = readLeaf(question);
  const page = readPage(question);
  const found = await compressed.changes(leaf, {
    ascending: page.ascending,
    limit: page.limit,
    skip: ((page.page ?? 1) - 1) * page.limit,
    cursor: page.cursor,
    after: page.after === null ? null : decode(page.after),
    before: page.before === null ? null : decode(page.before),
  });
  if (found === null) return null;
  if ('withheld' in found) throw new RpcError('unavailable', { message: found.withheld, details: found.withheld });
  const usesCursor = page.page === null && page.before === null && page.after === null;
  const last = found.items.at(-1)?.seq;
  return {
    ...(dialect === 'hosted' ? { last_indexed_slot: found.slot } : {}),
    total: found.items.length,
    limit: page.limit,
    ...(page.page === null ? {} : { page: page.page }),
    ...(page.before === null ? {} : { before: page.before }),
    ...(page.after === null ? {} : { after: page.after }),
    ...(usesCursor && dialect === 'hosted' && last !== undefined ? { cursor: String(last) } : {}),
    items: found.items.map(({ signature, operation }) => [
      encode64(signature),
      operation === '' ? 'Unknown' : operation,
    ]),
  };
}

/** Which asset is asked for. */
export function readLeaf(question: DasRequest): { readonly id: Uint8Array } | { tree: Uint8Array; leafIndex: number } {
  const { member, invalid } = question;
  const [id, tree, leafIndex] = [member('id'), member('tree'), member('leafIndex')];
  const isIndex = Number.isSafeInteger(leafIndex) && (leafIndex as number) >= 0;
  const isLeaf = tree !== undefined && isIndex;
  // The text of the reference for all of them.
  if (id === undefined ? !isLeaf : tree !== undefined)
    throw invalid("Validation Error: Must provide either 'id' or both 'tree' and 'leafIndex'");
  if (leafIndex !== undefined && !isIndex) throw invalid('leafIndex must be a whole number');
  const bytes = (value: unknown, name: string): Uint8Array => decode32(readKey(value, question, name)) as Uint8Array;
  return id === undefined ? { tree: bytes(tree, 'tree'), leafIndex: leafIndex as number } : { id: bytes(id, 'id') };
}

/** Pages like `readPaging` of lists, but keys are signatures, and a cursor is a sequence number of the tree. */
export function readPage(question: DasRequest) {
  const { member, invalid } = question;
  const { cursor, ...page } = readPaging(question, {
    key: (value, name) => {
      if (typeof value === 'string' && value.length <= 88 && decode(value)?.length === 64) return value;
      throw invalid(`${name} must be a signature`);
    },
    cursor: (value) => (typeof value === 'string' && /^\d{1,15}$/.test(value) ? value : badCursor(value, question)),
  });
  const direction = member('sortDirection') ?? 'desc';
  if (direction !== 'asc' && direction !== 'desc') throw invalid('sortDirection must be asc or desc');
  return { ...page, cursor: cursor === null ? null : Number(cursor), ascending: direction === 'asc' };
}
