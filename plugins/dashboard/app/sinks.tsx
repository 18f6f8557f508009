/** Rows in databases and queues of the operator: where each sink stands, what it was asked to do, and a button to pause it. */
import { messageOf } from '../../../src/lib/coded-error.ts';
import type { SinkView } from '../../../src/ports/sink.ts';
import { get, post } from './api.ts';
import { number } from './format.ts';
import { Badge, Button, Card, Empty, Head, Show, Table, Time, type Tone, toast, useLoad } from './ui.tsx';

const WATCH_MS = 2_000;
const TONES: Readonly<Record<SinkView['state'], Tone>> = {
  running: 'good',
  waiting: 'info',
  paused: 'warn',
  failing: 'bad',
};

interface Answer {
  readonly isOff?: boolean;
  readonly sinks: readonly SinkView[];
}

export function SinksPage() {
  const loaded = useLoad(() => get<Answer>('/sinks'), [], WATCH_MS);
  const act = async ({ name, state }: SinkView) => {
    try {
      await post(`/sinks/${name}/${state === 'paused' ? 'resume' : 'pause'}`);
      toast(`Sink ${name} is ${state === 'paused' ? 'written again' : 'paused'}`);
      await loaded.reload();
    } catch (error) {
      toast(messageOf(error), 'bad');
    }
  };
  return (
    <>
      <Head title="Sinks" note="Rows of final blocks in databases, queues, buckets and files" />
      <Show of={loaded} lines={6}>
        {({ isOff = false, sinks }) => (
          <>
            <Card flush>
              <Table
                caption="Sinks"
                keyOf={({ name }) => name}
                rows={sinks}
                empty={
                  isOff ? (
                    <Empty title="The plugin sinks is off">
                      Add <code>sinks</code> to the list of plugins and describe a target in <code>sinks.targets</code>.
                    </Empty>
                  ) : (
                    <Empty title="No sinks">
                      Describe a target in <code>sinks.targets</code>.
                    </Empty>
                  )
                }
                columns={[
                  { name: 'Sink', isTitle: true, show: ({ name }) => name },
                  { name: 'Kind', show: ({ kind }) => kind },
                  { name: 'State', show: ({ state }) => <Badge tone={TONES[state]}>{state}</Badge> },
                  { name: 'Last slot', isNumber: true, show: ({ lastSlot }) => maybe(lastSlot) },
                  { name: 'Slots behind', isNumber: true, show: ({ lagSlots }) => maybe(lagSlots) },
                  { name: 'Reason', show: ({ error }) => (error === null ? '–' : <span class="soft">{error}</span>) },
                  {
                    name: 'Action',
                    isActions: true,
                    show: (sink) => (
                      <Button onClick={() => act(sink)}>{sink.state === 'paused' ? 'Resume' : 'Pause'}</Button>
                    ),
                  },
                ]}
              />
            </Card>
            <Holes of={sinks} />
            <Tasks of={sinks} />
          </>
        )}
      </Show>
    </>
  );
}

const maybe = (value: number | null) => (value === null ? '–' : number(value));

function Holes({ of: sinks }: { of: readonly SinkView[] }) {
  const holes = sinks.flatMap(({ name, holes: list }) => list.map((hole) => ({ sink: name, ...hole })));
  if (holes.length === 0) return null;
  return (
    <Card title="Rows that a target lacks for ever" flush>
      <Table
        caption="Rows that were dropped before a target took them"
        keyOf={({ sink, table, from }) => `${sink}:${table}:${from}`}
        rows={holes}
        empty={<Empty title="None" />}
        columns={[
          { name: 'Sink', isTitle: true, show: ({ sink }) => sink },
          { name: 'Table', show: ({ table }) => table },
          { name: 'Slots', show: ({ from, to }) => `${number(from)} – ${number(to)}` },
        ]}
      />
    </Card>
  );
}

function Tasks({ of: sinks }: { of: readonly SinkView[] }) {
  const tasks = sinks.flatMap(({ name, tasks: list }) => list.map((task) => ({ sink: name, ...task })));
  if (tasks.length === 0) return null;
  return (
    <Card title="Backfills and comparisons" flush>
      <Table
        caption="Backfills and comparisons"
        keyOf={({ id }) => id}
        rows={tasks}
        empty={<Empty title="None" />}
        columns={[
          { name: 'Sink', isTitle: true, show: ({ sink }) => sink },
          { name: 'Task', show: ({ kind }) => (kind === 'backfill' ? 'backfill' : 'comparison') },
          { name: 'Slots', show: ({ from, to }) => `${number(from)} – ${number(to)}` },
          {
            name: 'Done',
            show: ({ from, to, next }) => {
              const part = (next - from) / (to - from + 1);
              const percent = `${Math.floor(part * 100)} %`;
              return (
                <span class="progress">
                  <progress max={1} value={part} aria-label={`Done of ${from} to ${to}`} />
                  {percent}
                </span>
              );
            },
          },
          { name: 'Ends', show: (task) => <Time at={endOf(task)} /> },
        ]}
      />
    </Card>
  );
}

/** When it is done if it goes on as fast as until now; null: nothing is done yet. */
function endOf({ from, to, next, createdAt }: SinkView['tasks'][number]): number | null {
  const done = next - from;
  if (done === 0) return null;
  const now = Date.now();
  return now + ((now - createdAt) / done) * (to - next + 1);
}
