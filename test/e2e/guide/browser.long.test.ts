/** The guide of a daemon in a real browser: every link, the search by keyboard, three widths in two themes, nothing from another host. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';

const missing = chromiumMissing();
if (missing !== null) console.error(`SKIPPED: ${missing}`);

let daemon: DaemonInProcess;
before(async () => {
  daemon = await startDaemon({ config: { follow: { enabled: false } } });
});
after(() => daemon?.stop());

interface Found {
  readonly html: string;
  readonly hrefs: readonly string[];
  readonly ids: ReadonlySet<string>;
}

async function read(url: string): Promise<Found> {
  const response = await fetch(url);
  assert.equal(response.status, 200, url);
  assert.match(
    response.headers.get('content-security-policy') ?? '',
    /default-src 'none'; script-src 'self'; style-src 'self';/,
  );
  const html = await response.text();
  const all = (pattern: RegExp) => [...html.matchAll(pattern)].map(([, value]) => value!.replaceAll('&amp;', '&'));
  return { html, hrefs: all(/<a [^>]*?href="([^"]+)"/g), ids: new Set(all(/\bid="([^"]+)"/g)) };
}

test('every page is reached from the first one on both listeners, and every link leads to a place that exists', async () => {
  for (const base of [daemon.apiUrl, daemon.adminUrl]) {
    const start = await fetch(`${base}/docs/guide`);
    assert.equal(start.url, `${base}/docs/guide/index.html`);
    const pages = new Map<string, Found>();
    const waiting = ['index.html'];
    const links: [from: string, to: string][] = [];
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      if (pages.has(name)) continue;
      const page = await read(`${base}/docs/guide/${name}`);
      pages.set(name, page);
      for (const href of page.hrefs.filter((link) => !/^https?:/.test(link))) {
        links.push([name, href]);
        const [, next] = /^([\w-]+\.html)/.exec(href) ?? [];
        if (next !== undefined) waiting.push(next);
      }
    }
    assert.ok(pages.size > 30, String(pages.size));
    const broken: string[] = [];
    for (const [from, href] of links) {
      const [path = '', fragment] = href.split('#');
      const target = path === '' ? pages.get(from) : pages.get(path);
      if (path.startsWith('/')) assert.equal((await fetch(base + path)).status, 200, href);
      else if (target === undefined || (fragment !== undefined && !target.ids.has(fragment)))
        broken.push(`${from}: ${href}`);
    }
    assert.deepEqual(broken, []);
    for (const name of ['nothing.html', 'build.mjs', 'pages']) {
      const refused = await fetch(`${base}/docs/guide/${name}`);
      assert.deepEqual([refused.status, await refused.json()], [404, { error: 'invalid path', code: 404 }], name);
    }
  }
});

test('the reference and the home of the admin listener link to the guide', async () => {
  const reference = await (await fetch(`${daemon.apiUrl}/docs/reference.json`)).text();
  assert.match(reference, /\(\/docs\/guide\)/);
  const home = await (await fetch(daemon.adminUrl, { headers: { accept: 'text/html' } })).text();
  assert.match(home, /<a href="\/docs\/guide">/);
});

test('a file is sent again only when it changed', async () => {
  const url = `${daemon.apiUrl}/docs/guide/style.css`;
  const first = await fetch(url);
  const second = await fetch(url, { headers: { 'if-none-match': first.headers.get('etag') ?? '' } });
  assert.deepEqual([first.status, second.status, await second.text()], [200, 304, '']);
});

describe('in a browser', { skip: missing ?? false }, () => {
  let browser: Browser;
  before(async () => {
    browser = await startChromium();
  });
  after(() => browser?.close());

  async function visit(name: string, width = 1_440, colorScheme: 'light' | 'dark' = 'light') {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    const faults: string[] = [];
    page.on('console', (line) => line.type() === 'error' && faults.push(line.text()));
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('request', (request) => {
      if (!request.url().startsWith(daemon.apiUrl)) faults.push(`asks ${request.url()}`);
    });
    await page.goto(`${daemon.apiUrl}/docs/guide/${name}`);
    return { page, faults };
  }

  test('every page, at three widths and in two themes: axe finds nothing, nothing runs out of the screen', async () => {
    const { html } = await read(`${daemon.apiUrl}/docs/guide/index.html`);
    const [, navigation = ''] = /<nav [^>]*aria-label="Pages"[^>]*>(.*?)<\/nav>/s.exec(html) ?? [];
    const names = [...navigation.matchAll(/href="([\w-]+\.html)"/g)].map(([, name]) => name!);
    assert.ok(names.length > 30, String(names));
    const looks = [390, 820, 1_440].flatMap((width) =>
      (['light', 'dark'] as const).map((scheme) => ({ width, scheme })),
    );
    // All looks of one page, and each of the others in one of them.
    const visits = [
      ...looks.map((look) => ({ name: 'webhooks.html', ...look })),
      ...names.map((name, at) => ({ name, ...looks[at % looks.length]! })),
    ];
    for (const { name, width, scheme } of visits) {
      const { page, faults } = await visit(name, width, scheme);
      const where = `${name} ${width} ${scheme}`;
      assert.deepEqual(await axeFaults(page), [], where);
      assert.ok(((await page.evaluate('document.documentElement.scrollWidth')) as number) <= width, where);
      const column = (await page.evaluate(
        "document.querySelector('article p').getBoundingClientRect().width",
      )) as number;
      assert.ok(column <= 16 * 46, `${where}: lines of ${column} px`);
      assert.deepEqual(faults, [], where);
      await page.close();
    }
  });

  test('the search finds by keyboard alone: a section, a configuration key, an error', async () => {
    for (const [words, target] of [
      ['prover', /compression\.html#the-prover$/],
      ['allowCidrs', /\.html(#\S+)?$/],
      ['WALLET_TOO_BUSY', /(wallet|errors)\.html#\S+$/],
      ['first webhoks', /webhooks?\.html/],
    ] as const) {
      const { page, faults } = await visit('index.html');
      await page.keyboard.press('/');
      await page.keyboard.type(words);
      const option = page.getByRole('option', { selected: true });
      await option.waitFor();
      assert.deepEqual(await axeFaults(page), []);
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowUp');
      const href = (await option.getAttribute('data-href')) as string;
      assert.match(href, target, words);
      await page.keyboard.press('Enter');
      await page.waitForURL(`**/${href}`);
      assert.deepEqual(faults, []);
      await page.close();
    }
  });

  test('a search without a result says so, and Escape closes it', async () => {
    const { page } = await visit('index.html');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('zzzzqqqq');
    await page.getByText('Nothing about “zzzzqqqq”.').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await page.close();
  });

  test('on a phone the menu opens, leads on, and closes', async () => {
    const { page, faults } = await visit('index.html', 390, 'dark');
    const pages = page.getByRole('navigation', { name: 'Pages' });
    assert.equal(await pages.isVisible(), false);
    await page.getByRole('button', { name: 'Menu' }).click();
    assert.deepEqual(await axeFaults(page), []);
    await page.keyboard.press('Escape');
    await pages.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Menu' }).click();
    await pages.getByRole('link', { name: 'Your first plugin' }).click();
    await page.getByRole('heading', { level: 1, name: 'Your first plugin' }).waitFor();
    await pages.waitFor({ state: 'hidden' });
    assert.deepEqual(faults, []);
    await page.close();
  });

  test('without JavaScript all pages are read and reached', async () => {
    const context = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 390, height: 800 } });
    const page = await context.newPage();
    await page.goto(`${daemon.apiUrl}/docs/guide/index.html`);
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Wallet', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Wallet' }).waitFor();
    await context.close();
  });
});
