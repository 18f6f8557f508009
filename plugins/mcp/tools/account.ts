import { Type } from '../../../src/plugin/plugin.ts';
import { answered, anything, choice, defineTool, INPUT, solOf } from '../tool.ts';
import { memberOf } from './answers.ts';

export const accountTool = defineTool({
  name: 'account',
  title: 'Account',
  description:
    'The state of any account now: lamports, the program that owns it, and its data, decoded where nodes can (view parsed) or in base64 (view raw). For what a person or service holds, use wallet.',
  input: Type.Object(
    {
      address: INPUT.address('address of the account'),
      view: Type.Optional(choice(['parsed', 'raw'], 'default: parsed')),
      commitment: Type.Optional(choice(['processed', 'confirmed', 'finalized'], 'default: confirmed')),
    },
    { additionalProperties: false },
  ),
  data: answered({
    exists: Type.Boolean(),
    slot: Type.Integer({ description: 'Slot of the answer' }),
    account: anything('lamports, owner, data, executable, space; null if there is no account'),
  }),
  async run({ address, view = 'parsed', commitment = 'confirmed' }, calls) {
    const encoding = view === 'parsed' ? 'jsonParsed' : 'base64';
    const found = await calls.rpc('getAccountInfo', [address, { encoding, commitment }]);
    const account = memberOf(found, 'value') ?? null;
    const slot = memberOf(memberOf(found, 'context'), 'slot');
    if (account === null)
      return {
        summary: `There is no account ${address}: it holds no lamports.`,
        data: { exists: false, slot, account },
      };
    const kind = memberOf(account, 'executable') === true ? 'A program' : 'An account';
    return {
      summary: `${kind} with ${solOf(memberOf(account, 'lamports') ?? 0)}, owned by the program ${String(memberOf(account, 'owner'))}.`,
      data: { exists: true, slot, account },
    };
  },
});
