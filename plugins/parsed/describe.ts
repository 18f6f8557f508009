/** The calls by which clients of Parsed Streams find out what they can ask for, and whether the connection is alive. */
import { decode32 } from '../../src/lib/base58.ts';
import { type ChainReader, RpcError, type RpcMethod, Type } from '../../src/plugin/plugin.ts';
import { address, orNull, slot, text } from '../../src/solana/schemas.ts';
import type { ParsedConfig } from './config.ts';
import { FOREVER, NOW } from './interfaces.ts';
import { TAG } from './routes.ts';
import { type ElementParts, learnAs } from './transactions.ts';

interface DescribeParts {
  readonly chain: () => ChainReader | null;
  readonly config: ParsedConfig;
  readonly elements: ElementParts;
}

const question = Type.Object(
  { program: address('Program') },
  { additionalProperties: false, description: 'The program' },
);
const params = Type.Union([question, Type.Array(question, { minItems: 1, maxItems: 1 })]);
const none = Type.Array(Type.Unknown(), { maxItems: 0, description: 'Nothing' });

const names = (description: string, example: string) =>
  Type.Array(text('Name in snake_case', example), { description });

export function describeMethods({ chain, config, elements }: DescribeParts): readonly RpcMethod[] {
  const common = { tag: TAG, auth: 'key' } as const;
  const priced = { product: 'enhancedApi', groups: ['rpc'] } as const;
  return [
    {
      ...common,
      ...{
        name: 'describeProgram',
        summary: 'What the newest interface of a program has, for filters of streams',
        params,
      },
      price: {
        ...priced,
        get credits() {
          return config.credits.request;
        },
      },
      result: Type.Object(
        {
          id: address('Program'),
          name: orNull(text('Name of the program', 'token')),
          instructions: names('Names of its instructions', 'transfer_checked'),
          events: names('Names of its events', 'swap_event'),
          roles: names('Names of the accounts of its instructions', 'authority'),
        },
        { title: 'DescribedProgram', description: 'Lists are empty for a program without an interface' },
      ),
      async handler({ params: given, caller, signal, tenant }) {
        const [{ program }] = [given].flat() as [{ readonly program: string }];
        if (decode32(program) === null) throw new RpcError('invalidParams', { details: 'program must be an address' });
        const asker = { signal, tenant, project: caller?.projectId ?? null };
        const { versionsOf } = await learnAs(new Map([[program, NOW]]), elements, asker);
        // Sources come in the order in which they are asked.
        const newest = versionsOf(program).find((one) => one.to === FOREVER && one.program !== null)?.program ?? null;
        return {
          ...{ id: program, name: newest?.name ?? null, instructions: [...new Set(newest?.instructions())] },
          ...{ events: [...new Set(newest?.events())], roles: newest?.roles() ?? [] },
        };
      },
    },
    {
      ...common,
      ...{ name: 'ping', summary: 'The current slot, to keep a connection open', params: none },
      price: { ...priced, credits: 0 },
      result: slot('Newest slot that is known'),
      handler() {
        const { tipSlot, cursorSlot } = chain()?.status() ?? { tipSlot: null, cursorSlot: null };
        const newest = tipSlot ?? cursorSlot;
        if (newest === null) throw new RpcError('unavailable', { details: 'no slot is known yet' });
        return newest;
      },
    },
  ];
}
