import { bankFor } from '../ledger/forks.ts';
import { accountMethods, tokenMethods } from './methods-accounts.ts';
import { blockMethods } from './methods-blocks.ts';
import { nodeMethods } from './methods-node.ts';
import { sendMethods } from './methods-send.ts';
import type { Method, Methods } from './node.ts';

/** Every method of a node that the simulator answers. */
export function allMethods(): Methods {
  const { getSlot, getBlockHeight, getEpochInfo } = nodeMethods as Record<string, Method>;
  const tips = fromOldBranch({ getSlot, getBlockHeight, getEpochInfo } as Methods);
  return {
    ...nodeMethods,
    ...tips,
    ...fromOldBranch(blockMethods),
    ...accountMethods,
    ...tokenMethods,
    ...sendMethods,
  };
}

/** After a fork with `servesOld`, calls that read blocks are answered from the branch that was left, for a while. */
function fromOldBranch(methods: Methods): Methods {
  return Object.fromEntries(
    Object.entries(methods).map(([name, method]) => [
      name,
      (node, params) => method({ ...node, bank: bankFor(node.bank, name) }, params),
    ]),
  );
}
