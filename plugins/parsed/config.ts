import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const count = (value: number, maximum: number, description: string) =>
  Type.Integer({ minimum: 1, maximum, default: value, description });

export const parsedConfig = Type.Object(
  {
    credits: Type.Object(
      {
        request: reloadable(Type.Number({ minimum: 0, default: 10, description: 'price of one call' })),
        scanPage: reloadable(
          Type.Number({
            minimum: 0,
            default: 1,
            description: 'price of each 1,000 transactions that a scan searches, or part of them',
          }),
        ),
      },
      { additionalProperties: false, default: {} },
    ),
    concurrency: reloadable(count(8, 100, 'transactions that one call reads from the upstream at once')),
    upstreamTimeoutMs: reloadable(count(10_000, 120_000, 'longest wait for one response of the upstream')),
    historyLimit: reloadable(
      count(
        2_000,
        100_000,
        'transactions of an address that one page of history searches; then the page ends and its token continues',
      ),
    ),
    scanMs: reloadable(count(20_000, 120_000, 'time after which a scan ends and its token continues')),
    timeoutMs: reloadable(count(60_000, 300_000, 'longest duration of one call')),
    idls: Type.Object(
      {
        folder: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
          default: null,
          description:
            'folder with interfaces (IDLs) that are preferred to those of the chain: PROGRAM.json, or PROGRAM@SLOT.json for one that is valid from a slot on; it is read again when it changes',
        }),
        chain: reloadable(
          Type.Boolean({ default: true, description: 'read interfaces that programs publish on the chain' }),
        ),
        cacheBytes: Type.Integer({
          // One interface of 300 KB has to fit, at 24 bytes a character.
          minimum: 8_388_608,
          default: 134_217_728,
          description:
            'memory for interfaces of the chain, and as much for those of projects, at 24 bytes a character; one program or project has a quarter of it, at least 8 MiB',
        }),
        uploads: Type.Object(
          {
            maxPrograms: reloadable(count(50, 10_000, 'programs for which one project may upload interfaces')),
            maxVersions: reloadable(count(8, 1_000, 'versions of one program that a project may have')),
            maxBytes: reloadable(
              count(
                1_048_576,
                4_194_304,
                'bytes of all interfaces of a project, within its share of cacheBytes; one fits into http.bodyLimitBytes',
              ),
            ),
          },
          { additionalProperties: false, default: {}, description: 'interfaces that projects upload for themselves' },
        ),
      },
      { additionalProperties: false, default: {} },
    ),
  },
  { additionalProperties: false, default: {} },
);

export type ParsedConfig = Static<typeof parsedConfig>;
