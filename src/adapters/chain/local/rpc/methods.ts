import { accountMethods } from './methods-accounts.ts';
import { blockMethods } from './methods-blocks.ts';
import { nodeMethods } from './methods-node.ts';
import { sendMethods } from './methods-send.ts';
import { tokenMethods } from './methods-tokens.ts';
import type { Methods } from './node.ts';

/** Every method of a node that the simulator answers. */
export function allMethods(): Methods {
  return { ...nodeMethods, ...blockMethods, ...accountMethods, ...tokenMethods, ...sendMethods };
}
