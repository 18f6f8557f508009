import { encode32 } from '../../../lib/base58.ts';
import { assetId } from '../../concurrent/asset-id.ts';
import { u32At, u64At } from '../../movements/little-endian.ts';
import { discriminatorOf } from '../discriminator.ts';
import type { TransactionParser } from '../parser.ts';
import { BUBBLEGUM } from '../program-ids.ts';
import type { TransactionView, ViewStep } from '../view.ts';
import { BUBBLEGUM_FORMS, type BubblegumForm } from './instructions.ts';
import { readMintMetadata } from './metadata.ts';
import { readTold, type Told } from './told.ts';
import { readUpdateArgs } from './update-args.ts';

/** Only the first version of it has a known layout. */
const UPDATE_METADATA = 'aab62bef614ee1ba';

const NEW_TREE = 'CREATE_MERKLE_TREE';

interface Found {
  readonly form: BubblegumForm;
  readonly step: ViewStep;
  /** What it called, up to the next instruction of Bubblegum. */
  readonly calls: readonly ViewStep[];
}

export const bubblegum: TransactionParser = {
  name: 'bubblegum',
  programs: [BUBBLEGUM],
  isInnerEnough: true,
  parse(view) {
    const found = view.steps.flatMap((step, at): Found[] => {
      const form = step.programId === BUBBLEGUM ? BUBBLEGUM_FORMS[discriminatorOf(step.data)] : undefined;
      return form === undefined ? [] : [{ form, step, calls: callsOf(view.steps, at) }];
    });
    const [first] = found;
    if (first === undefined) return null;
    const { type, did } = first.form;
    const told = found.filter(({ form }) => form.did !== '' || form.type === NEW_TREE);
    return {
      ...{ type, source: 'BUBBLEGUM' },
      describe: () => (did === '' ? '' : `${view.feePayer} ${did} a compressed nft.`),
      events: () => (told.length === 0 ? {} : { compressed: told.map((one) => entryOf(view, one)) }),
    };
  },
};

function callsOf(steps: readonly ViewStep[], at: number): ViewStep[] {
  const calls: ViewStep[] = [];
  const { outer } = steps[at]!;
  for (let next = at + 1; next < steps.length; next++) {
    const step = steps[next]!;
    if (step.outer !== outer || step.programId === BUBBLEGUM) break;
    calls.push(step);
  }
  return calls;
}

function entryOf(view: TransactionView, { form, step, calls }: Found): Readonly<Record<string, unknown>> {
  const told = readTold(calls);
  const { leaf, change } = told;
  const at = (position: number): string | null => {
    const text = position < 0 ? '' : view.account(step.accounts[position]);
    // An optional account that is absent is named by the program itself.
    return text === '' || text === BUBBLEGUM ? null : text;
  };
  const isGone = form.type.endsWith('_BURN') || form.type.endsWith('_REDEEM');
  const owner = at(form.owner);
  const delegate = at(form.delegate) ?? owner;
  return {
    assetId: assetOf(view, step, told, form),
    innerInstructionIndex: step.inner < 0 ? null : step.inner,
    instructionIndex: step.outer,
    leafIndex: form.type === NEW_TREE ? null : (change?.leafIndex ?? null),
    metadata: form.metadata === 0 ? null : readMintMetadata(step.data, form.metadata),
    newLeafDelegate:
      leaf === null ? (isGone ? null : (at(form.newDelegate) ?? at(form.newOwner))) : encode32(leaf.delegate),
    newLeafOwner: leaf === null ? (isGone ? null : at(form.newOwner)) : encode32(leaf.owner),
    oldLeafDelegate: form.metadata !== 0 ? null : delegate,
    oldLeafOwner: form.metadata !== 0 ? null : owner,
    seq: change?.seq ?? null,
    treeDelegate: at(form.treeDelegate) ?? at(form.payer),
    treeId: change === null ? at(form.tree) : encode32(change.tree),
    type: form.type,
    updateArgs: form === BUBBLEGUM_FORMS[UPDATE_METADATA] ? readUpdateArgs(step.data) : null,
  };
}

/** Where the nonce stands in the data of instructions that empty a leaf: behind discriminator, root and two hashes. */
const NONCE_AT = 8 + 32 * 3;

function assetOf(view: TransactionView, step: ViewStep, { leaf, change }: Told, form: BubblegumForm): string | null {
  if (leaf !== null) return encode32(leaf.id);
  if (form.type === NEW_TREE) return null;
  const position = form.tree < 0 ? undefined : step.accounts[form.tree];
  const key = position === undefined ? -1 : (view.tx.keys[position] ?? -1);
  const tree = change?.tree ?? view.movements.keys.bytes(key);
  const nonce = u64At(step.data, NONCE_AT);
  // The number is checked against the leaf: data of another layout has another number there.
  const isSure = nonce !== null && change !== null && u32At(step.data, NONCE_AT + 8) === change.leafIndex;
  return tree === null || !isSure ? null : encode32(assetId(tree, nonce));
}
