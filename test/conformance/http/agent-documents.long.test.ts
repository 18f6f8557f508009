/** What agents read: /llms.txt, /agents.json, /skill.md, and every page as Markdown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDaemon } from '../../helpers/daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';

test('llms.txt leads to pages, the pages to pages, and each is Markdown for those who ask for it', async (t) => {
  const upstream = await startUpstream();
  const daemon = await startDaemon({ chain: { rpcUrl: upstream.url }, config: { follow: { enabled: false } } });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const read = async (path: string, accept = '*/*') => {
    const response = await fetch(new URL(path, daemon.apiUrl), { headers: { accept } });
    return {
      status: response.status,
      type: response.headers.get('content-type') ?? '',
      vary: response.headers.get('vary') ?? '',
      text: await response.text(),
    };
  };
  const linksOf = (text: string) =>
    [...text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/\]\(([^)\s#]+)/g)].map(([, link = '']) => link);
  const index = await read('/llms.txt');
  assert.match(index.type, /^text\/plain/);
  assert.match(index.text, /^# Parhelion\n\n> /);
  const links = linksOf(index.text).filter((link) => link !== '/mcp');
  assert.ok(links.length > 40, String(links.length));
  for (const link of links) assert.equal((await read(link)).status, 200, link);

  const pages = links.filter((link) => link.startsWith('/docs/guide/'));
  for (const page of pages) {
    const { text, type } = await read(page);
    assert.match(type, /^text\/markdown/, page);
    assert.match(text, /^(---|# )/, page);
    const inside = linksOf(text).filter((link) => !/^[a-z]+:/.test(link));
    for (const link of inside) assert.match(link, /^[a-z-]+\.md$/, `${page} links to ${link}`);
    for (const link of inside)
      assert.ok(link === 'index.md' || pages.includes(`/docs/guide/${link}`), `${page}: ${link}`);
    const asked = await read(page.replace(/md$/, 'html'), 'text/markdown, */*;q=0.5');
    assert.equal(asked.text, text, page);
    assert.match(asked.vary, /\bAccept\b(?!-)/, page);
  }
  const browser = await read('/docs/guide/webhooks.html', 'text/html,application/xhtml+xml,*/*;q=0.8');
  assert.match(browser.type, /^text\/html/);
  assert.match((await read('/docs/guide/webhooks.html', 'text/html, text/markdown;q=0')).type, /^text\/html/);

  const reference = await read('/docs', 'text/markdown');
  assert.match(reference.type, /^text\/markdown/);
  assert.equal(reference.text, (await read('/docs/reference.md')).text);
  for (const call of ['### POST /v0/webhooks', '### getTransfersByAddress', '### GET /v1/wallet/{wallet}/balances'])
    assert.ok(reference.text.includes(call), call);
  assert.match((await read('/docs', 'text/html')).type, /^text\/html/);

  const agents = JSON.parse((await read('/agents.json')).text) as Record<string, Record<string, unknown>>;
  for (const address of [...Object.values(agents['documentation'] ?? {}), agents['interfaces']?.['openapi']])
    assert.equal((await read(String(address))).status, 200, String(address));
  assert.deepEqual(agents['interfaces']?.['mcp'], { url: '/mcp', transport: 'streamable-http' });
  assert.match((await read('/skill.md')).text, /^---\nname: parhelion\ndescription: .{40,}/);
});
