import { decode, decode32, encode64 } from '../../src/lib/base58.ts';
import { RpcError } from '../../src/plugin/plugin.ts';
import type { CompressedAssets } from '../../src/ports/compressed-assets.ts';
import type { DasConfig } from './config.ts';
import { badCursor, type Question, readKey, readPaging } from './params.ts';

/** The transactions that changed a compressed asset, with the names of their instructions. Null when the asset is not in a followed tree. */
export async function assetSignatures(
  question: Question,
  compressed: CompressedAssets,
  { dialect }: Pick<DasConfig, 'dialect'>,
): Promise<object | null> {
  const { member, invalid } = question;
  const [id, tree, leafIndex] = [member('id'), member('tree'), member('leafIndex')];
  if (id !== undefined && tree !== undefined) throw invalid('id and tree cannot be used together');
  if (id === undefined && (tree === undefined || !Number.isSafeInteger(leafIndex) || (leafIndex as number) < 0))
    throw invalid('id, or tree and leafIndex, must be given');
  const bytes = (value: unknown, name: string): Uint8Array => decode32(readKey(value, question, name)) as Uint8Array;
  const leaf =
    id === undefined ? { tree: bytes(tree, 'tree'), leafIndex: leafIndex as number } : { id: bytes(id, 'id') };
  const page = readPage(question);
  const found = await compressed.changes(leaf, {
    ...{ ascending: page.ascending, limit: page.limit, skip: ((page.page ?? 1) - 1) * page.limit, cursor: page.cursor },
    after: page.after === null ? null : decode(page.after),
    before: page.before === null ? null : decode(page.before),
  });
  if (found === null) return null;
  if ('withheld' in found) throw new RpcError('unavailable', { message: found.withheld, details: found.withheld });
  const usesCursor = page.page === null && page.before === null && page.after === null;
  const last = found.items.at(-1)?.seq;
  return {
    ...(dialect === 'hosted' ? { last_indexed_slot: found.slot } : {}),
    ...{ total: found.items.length, limit: page.limit },
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

/** As the paging of lists, but keys are signatures, and a cursor is a sequence number of the tree. */
function readPage(question: Question) {
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
