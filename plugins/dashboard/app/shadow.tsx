/** Answers that were compared with a reference: counts, groups of differences, and both answers of one side by side. */
import type { DifferenceGroup, ShadowReport } from '../../../src/ports/shadow-report.ts';
import { get } from './api.ts';
import { number } from './format.ts';
import { href } from './place.ts';
import { Badge, breakable, Card, Code, Empty, Facts, Head, Show, Stat, Table, Time, useLoad } from './ui.tsx';

/** A stored difference, as the route of the plugin returns it. */
interface StoredDifference {
  readonly id: string;
  /** Unix milliseconds. */
  readonly at: number;
  readonly question: string;
  readonly ourValue: string;
  readonly theirValue: string;
  readonly ourStatus: number;
  readonly theirStatus: number;
  readonly ours: string;
  readonly theirs: string;
}

const WATCH_MS = 5_000;

export function ShadowPage({ group }: { group: string | null }) {
  return group === null ? <ReportPage /> : <GroupPage id={group} />;
}

function ReportPage() {
  const report = useLoad(() => get<ShadowReport & { readonly isOff?: boolean }>('/shadow'), [], WATCH_MS);
  return (
    <>
      <Head title="Shadow" note="Answers compared with those of the reference, in the last seven days" />
      <Show of={report} lines={6}>
        {(found) =>
          found.isOff === true ? (
            <Card>
              <Empty title="The plugin shadow is off">
                Add <code>shadow</code> to the list of plugins and set <code>shadow.reference.url</code>.
              </Empty>
            </Card>
          ) : (
            <Report of={found} />
          )
        }
      </Show>
    </>
  );
}

function Report({ of: report }: { of: ShadowReport }) {
  return (
    <>
      <Card flush>
        <dl class="stats">
          <Stat name="Compared">{number(report.compared)}</Stat>
          <Stat name="Equal">{number(report.equal)}</Stat>
          <Stat name="Explained">{number(report.explained)}</Stat>
          <Stat name="Different" tone={report.different > 0 ? 'bad' : 'plain'}>
            {number(report.different)}
          </Stat>
        </dl>
      </Card>
      <Card title="Differences" note="Unexplained ones first" flush>
        <Groups of={report.groups} />
      </Card>
      <Card title="Methods" flush>
        <Table
          caption="Compared methods"
          keyOf={({ method }) => method}
          rows={report.methods}
          empty={<Empty title="Nothing was compared yet" />}
          columns={[
            { name: 'Method', isTitle: true, show: ({ method }) => breakable(method) },
            { name: 'Product', show: ({ product }) => product },
            { name: 'Compared', isNumber: true, show: ({ compared }) => number(compared) },
            { name: 'Equal', isNumber: true, show: ({ equal }) => number(equal) },
            { name: 'Explained', isNumber: true, show: ({ explained }) => number(explained) },
            { name: 'Different', isNumber: true, show: ({ different }) => number(different) },
            { name: 'Unanswered', isNumber: true, show: ({ unanswered }) => number(unanswered) },
          ]}
        />
      </Card>
    </>
  );
}

function Groups({ of: groups }: { of: readonly DifferenceGroup[] }) {
  return (
    <Table
      caption="Groups of differences"
      keyOf={({ id }) => id}
      rows={groups}
      empty={<Empty title="No differences">All compared answers were equal.</Empty>}
      columns={[
        {
          name: 'Member',
          isTitle: true,
          show: ({ id, path }) => <a href={href(['shadow', id])}>{path === '' ? '(whole answer)' : breakable(path)}</a>,
        },
        { name: 'Method', show: ({ method }) => breakable(method) },
        {
          name: 'Kind',
          show: ({ kind, reason }) => (
            <Badge tone={reason === null ? 'bad' : 'plain'}>{kind.replaceAll('-', ' ')}</Badge>
          ),
        },
        { name: 'Answers', isNumber: true, show: ({ count }) => number(count) },
        { name: 'Explanation', show: ({ reason }) => reason ?? '–' },
        { name: 'Last seen', show: ({ lastAt }) => <Time at={lastAt} /> },
      ]}
    />
  );
}

function GroupPage({ id }: { id: string }) {
  const loaded = useLoad(
    () => get<{ readonly differences: readonly StoredDifference[] }>(`/shadow?group=${encodeURIComponent(id)}`),
    [id],
  );
  return (
    <>
      <Head title="Differences" note={<a href={href(['shadow'])}>All groups</a>} />
      <Show of={loaded} lines={6}>
        {({ differences }) =>
          differences.length === 0 ? (
            <Card>
              <Empty title="No answers are kept">They were older than those that are kept.</Empty>
            </Card>
          ) : (
            differences.map((one) => <SideBySide key={one.id} of={one} />)
          )
        }
      </Show>
    </>
  );
}

function SideBySide({ of: one }: { of: StoredDifference }) {
  return (
    <Card title="Answers" note={<Time at={one.at} />}>
      <Facts
        rows={[
          ['Question', <code key="question">{breakable(one.question)}</code>],
          ['Our value', <code key="ours">{breakable(one.ourValue)}</code>],
          ['Their value', <code key="theirs">{breakable(one.theirValue)}</code>],
        ]}
      />
      <div class="beside">
        <div>
          <h3>Ours, HTTP {one.ourStatus}</h3>
          <Code value={pretty(one.ours)} label="our answer" />
        </div>
        <div>
          <h3>Reference, HTTP {one.theirStatus}</h3>
          <Code value={pretty(one.theirs)} label="answer of the reference" />
        </div>
      </div>
    </Card>
  );
}

/** Lines up two JSON texts by indenting both; numbers stay as they are written. */
function pretty(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[\]},:]/g, (token) => {
    if (token === '{' || token === '[') {
      depth += 1;
      return `${token}\n${' '.repeat(2 * depth)}`;
    }
    if (token === '}' || token === ']') {
      depth -= 1;
      return `\n${' '.repeat(2 * depth)}${token}`;
    }
    if (token === ',') return `,\n${' '.repeat(2 * depth)}`;
    return token === ':' ? ': ' : token;
  });
}
