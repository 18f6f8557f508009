import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;

export const mcpConfig = Type.Object(
  {
    writes: reloadable(
      Type.Boolean({
        default: true,
        description: 'offer the tool that changes webhooks; it changes nothing without a confirmation',
      }),
    ),
    origins: reloadable(
      Type.Array(Type.String({ pattern: '^https?://[^/]+$' }), {
        default: [],
        maxItems: 100,
        description: 'web pages that may call /mcp besides those of this machine: https://app.example.org',
      }),
    ),
    timeoutMs: Type.Integer({ minimum: 100, maximum: 600_000, default: 25_000, description: 'longest time of a tool' }),
    maxAnswerBytes: reloadable(
      Type.Integer({
        minimum: 4_096,
        maximum: 16_777_216,
        default: 65_536,
        description: 'largest answer of a tool; longer ones are shortened, or refused when a call asks for the whole',
      }),
    ),
  },
  { ...closed, default: {}, description: 'agents: the Model Context Protocol at /mcp' },
);

export type McpConfig = Static<typeof mcpConfig>;
