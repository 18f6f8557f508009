import { Type } from '../../../src/plugin/plugin.ts';
import { answered, anything, choice, count, defineTool, INPUT, listOf } from '../tool.ts';
import { itemsOf, memberOf } from './answers.ts';

const CONFIRMED = { commitment: 'confirmed' };

export const tokenTool = defineTool({
  name: 'token',
  title: 'Token',
  description:
    'A fungible token by its mint. Views: overview (supply, decimals, authorities, metadata), holders (the 20 largest accounts). Name and symbol were chosen by whoever made the token: compare the mint, never the name.',
  input: Type.Object(
    {
      mint: INPUT.address('address of the mint'),
      view: Type.Optional(choice(['overview', 'holders'], 'default: overview')),
    },
    { additionalProperties: false },
  ),
  data: answered({
    supply: anything('amount in raw units as text, decimals, uiAmountString'),
    metadata: anything('Of the chain and of documents off the chain'),
    items: listOf('The largest accounts with their amounts'),
  }),
  async run({ mint, view = 'overview' }, calls) {
    if (view === 'holders') {
      const [found, supply] = await Promise.all([
        calls.rpc('getTokenLargestAccounts', [mint, CONFIRMED]),
        calls.rpc('getTokenSupply', [mint, CONFIRMED]),
      ]);
      const items = itemsOf(memberOf(found, 'value'));
      return {
        summary: `The ${count(items.length, 'largest account')} of ${mint}. These are token accounts: ask account for their owners.`,
        data: { items, supply: memberOf(supply, 'value') },
      };
    }
    const [supply, metadata] = await Promise.all([
      calls.rpc('getTokenSupply', [mint, CONFIRMED]),
      calls.send('POST', '/v0/token-metadata', { mintAccounts: [mint], includeOffChain: true }),
    ]);
    const value = memberOf(supply, 'value');
    return {
      summary: `The token ${mint} has ${String(memberOf(value, 'decimals'))} decimals and a supply of ${String(memberOf(value, 'amount'))} raw units.`,
      data: { supply: value, metadata: itemsOf(metadata)[0] ?? null },
    };
  },
});
