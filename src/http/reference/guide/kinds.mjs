/** The kinds of pages, and the pages of each in the order of reading. */
export const KINDS = [
  {
    title: 'Tutorials',
    purpose: 'Learn by doing: each starts from nothing and ends with something that works.',
    pages: ['first-webhook', 'wallet-page', 'compressed-token', 'first-plugin', 'wallet-rows', 'leave-hosted'].map(
      inDocs('tutorials'),
    ),
  },
  {
    title: 'How-to',
    purpose: 'Do one thing: run the daemon, move to it, connect a client.',
    pages: [
      ...[
        'operators',
        'kubernetes',
        'runbook',
        'ledger',
        'archive',
        'sinks',
        'dashboard',
        'portal',
        'from-hosted',
        'clients',
        'sdks',
        'javascript',
        'rust',
        'python',
        'go',
        'java',
      ].map(inDocs('how-to')),
      { source: 'config/grafana/README.md', name: 'grafana', label: 'Grafana and alerts' },
    ],
  },
  {
    title: 'Reference',
    purpose: 'Look up every call, field, key, metric and error.',
    pages: [
      ...[
        'proxy',
        'streams',
        'sender',
        'fees',
        'accounts',
        'history',
        'wallet',
        'token-metadata',
        'das',
        'enhanced',
        'parsed',
        'webhooks',
        'shadow',
        'compression',
        'access',
        'agents',
        'pay-per-call',
      ].map(inDocs('reference')),
      ...['plugins', 'errors'].map(inDocs('reference')),
      {
        source: 'config/parhelion.yaml',
        name: 'configuration',
        title: 'Configuration',
        about: 'Every key of the configuration, with its default.',
      },
      {
        source: 'config/metrics.txt',
        name: 'metrics',
        title: 'Metrics',
        about: 'Every metric of `GET /metrics` on the admin listener, by the part of the daemon that it belongs to.',
      },
      { source: 'config/labels/README.md', name: 'labels' },
      { source: 'GLOSSARY.md', name: 'glossary' },
    ],
  },
  {
    title: 'Explanation',
    purpose: 'Understand how it works, how fast it is and what it protects.',
    pages: [
      { source: 'ARCHITECTURE.md', name: 'architecture' },
      ...['finality', 'other-software', 'performance', 'threat-model'].map(inDocs('explanation')),
    ],
  },
];

function inDocs(kind) {
  return (name) => ({ source: `docs/${kind}/${name}.md`, name });
}

/** What the site is made of outside of `docs/`, from the root of the repository. */
export const GUIDE_SOURCES = KINDS.flatMap(({ pages }) => pages.map(({ source }) => source)).filter(
  (path) => !path.startsWith('docs/'),
);
