import { open, readFile } from 'node:fs/promises';
import {
  API_VERSION,
  definePlugin,
  type OpenSink,
  type SinkBatch,
  type SinkPosition,
  type SinkTarget,
  sinkKinds,
  Type,
} from 'parhelion/plugin';

/** Rows as lines of one file. A batch ends with the line of its position: what stands behind the last such line was never acknowledged. */
async function openLines({ target }: OpenSink): Promise<SinkTarget> {
  const file = await open(target, 'a+');
  const positions = new Map<string, SinkPosition>();
  const bytes = await readFile(target);
  let size = 0;
  for (let at = 0, end = bytes.indexOf('\n'); end >= 0; at = end + 1, end = bytes.indexOf('\n', at)) {
    const line: unknown = JSON.parse(bytes.toString('utf8', at, end));
    if (Array.isArray(line)) continue;
    const position = line as SinkPosition;
    positions.set(position.part, position);
    size = end + 1;
  }
  await file.truncate(size);
  const exact = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
  return {
    positions: async () => [...positions.values()],
    async write({ position, rows }: SinkBatch) {
      const lines = [...rows].flatMap(([table, list]) => list.map((row) => JSON.stringify([table, ...row], exact)));
      await file.appendFile(`${[...lines, JSON.stringify(position)].join('\n')}\n`);
      await file.datasync();
      positions.set(position.part, position);
      return position;
    },
    close: () => file.close(),
  };
}

export default definePlugin({
  id: 'lines-sink',
  apiVersion: API_VERSION,
  summary: 'sinks that are one file of lines',
  config: Type.Object({}, { additionalProperties: false, default: {} }),
  uses: [sinkKinds],
  provision(ctx) {
    ctx.use(sinkKinds)?.define({ kind: 'lines', batch: { slots: 64, seconds: 1 }, open: openLines });
  },
});
