/** `/docs` in a real browser: search, a call with one's key, samples, both themes, narrow screens, and nothing from another host. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';

const missing = chromiumMissing();
let daemon: DaemonInProcess;
let browser: Browser;
before(async () => {
  daemon = await startDaemon({ config: { follow: { enabled: false } } });
  if (missing === null) browser = await startChromium();
});
after(async () => {
  await browser?.close();
  await daemon?.stop();
});

interface Visit {
  readonly page: Page;
  readonly faults: string[];
}

async function visit(
  path: string,
  base: string,
  width = 1_440,
  colorScheme: 'light' | 'dark' = 'light',
): Promise<Visit> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const faults: string[] = [];
  page.on('console', (line) => line.type() === 'error' && faults.push(line.text()));
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith('data:')) faults.push(`asks ${request.url()}`);
  });
  await page.goto(`${base}${path}`);
  await page.locator('.references-rendered h1').first().waitFor();
  return { page, faults };
}

test('search finds a JSON-RPC method, and its page has a sample for the shell', {
  skip: missing ?? false,
}, async () => {
  const { page, faults } = await visit('/docs', daemon.apiUrl);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('getPriorityFeeEstimateV1');
  const found = page.getByRole('option').filter({ hasText: 'getPriorityFeeEstimateV1' }).first();
  await found.waitFor();
  await found.click();
  await page.getByRole('heading', { name: 'getPriorityFeeEstimateV1' }).first().waitFor();
  await page.getByText('"getPriorityFeeEstimateV1"').first().waitFor();
  assert.match((await page.locator('body').textContent()) ?? '', /curl/);
  assert.deepEqual(faults, []);
  await page.close();
});

test('Enter opens the method of exactly this name, which is shown as a call of /', {
  skip: missing ?? false,
}, async () => {
  const { page, faults } = await visit('/docs', daemon.apiUrl);
  // Other names contain this one, and stand before it.
  for (const name of ['getAsset', 'getTransaction']) {
    await page.keyboard.press('Control+k');
    await page.keyboard.type(name);
    await page.getByRole('listbox', { name: 'Found' }).getByRole('option').first().waitFor();
    await page.keyboard.press('Enter');
    const section = page.getByRole('region', { name, exact: true });
    await section.waitFor();
    assert.equal(await page.evaluate('document.activeElement.ariaLabel'), name);
    assert.equal(await section.locator('.path').textContent(), `POST / method ${name}`);
    assert.match((await section.textContent()) ?? '', /It counts against the rate (das|rpc) of the project\./);
    assert.ok(!((await section.textContent()) ?? '').includes('/#'), 'no address that is none');
  }
  assert.deepEqual(faults, []);
  await page.close();
});

test('the list at the side leads to each operation', { skip: missing ?? false }, async () => {
  const { page, faults } = await visit('/docs', daemon.apiUrl);
  const side = page.getByRole('navigation', { name: 'Operations' });
  const { paths } = (await (await fetch(`${daemon.apiUrl}/docs/reference.json`)).json()) as Reference;
  const count = Object.values(paths).flatMap((methods) => Object.keys(methods)).length;
  assert.equal(await side.locator('a').count(), count);
  await side.getByText('Webhooks', { exact: true }).click();
  await side.getByRole('link', { name: 'Create a webhook', exact: true }).click();
  await page.getByRole('region', { name: 'POST /v0/webhooks', exact: true }).waitFor();
  assert.ok(!((await side.textContent()) ?? '').includes('[object'));
  assert.deepEqual(faults, []);
  await page.close();
});

test('a call is tried with a key, and the answer of this daemon is shown', { skip: missing ?? false }, async () => {
  const { page, faults } = await visit('/docs#tag/webhooks/GET/v0/webhooks', daemon.apiUrl);
  const answered = page.waitForResponse((response) => new URL(response.url()).pathname === '/v0/webhooks');
  await page
    .getByRole('button', { name: /Test Request/ })
    .first()
    .waitFor();
  const operation = page.locator('[id="api-1/tag/webhooks/GET/v0/webhooks"]');
  await operation
    .getByRole('button', { name: /Test Request/ })
    .first()
    .click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: /Send/ }).first().click();
  assert.equal((await answered).status(), 401);
  await dialog.getByText('401').first().waitFor();
  assert.deepEqual(
    faults.filter((fault) => !/401/.test(fault)),
    [],
  );
  await page.keyboard.press('Escape');
  // The key of the form is in the sample, which hides it, and in the call.
  await page.getByPlaceholder('your API key').first().fill(daemon.key);
  await operation.getByText('X-Api-Key', { exact: false }).first().waitFor();
  await operation
    .getByRole('button', { name: /Test Request/ })
    .first()
    .click();
  const listed = page.waitForResponse((response) => new URL(response.url()).pathname === '/v0/webhooks');
  await dialog.getByRole('button', { name: /Send/ }).first().click();
  assert.deepEqual([(await listed).status(), await (await listed).json()], [200, []]);
  await page.close();
});

test('light and dark, wide and narrow: nothing runs out of the screen, and axe finds nothing', {
  skip: missing ?? false,
}, async () => {
  for (const [base, width, scheme] of [
    [daemon.apiUrl, 1_440, 'dark'],
    [daemon.apiUrl, 820, 'light'],
    [daemon.apiUrl, 390, 'light'],
    [daemon.adminUrl, 390, 'dark'],
  ] as const) {
    const { page, faults } = await visit('/docs', base, width, scheme);
    const wide = await page.evaluate('document.documentElement.scrollWidth');
    assert.ok((wide as number) <= width, `${width}: ${wide}`);
    assert.deepEqual(await axeFaults(page), [], `${width} ${scheme}`);
    assert.deepEqual(faults, []);
    await page.close();
  }
});

interface Reference {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Shown>>>>;
}
interface Media {
  readonly schema?: { readonly properties?: object };
  readonly example?: unknown;
}
interface Shown {
  readonly summary: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly { readonly name: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>;
}

test('every route and method is shown with its parameters, members and examples, and each group without a fault', {
  skip: missing ?? false,
}, async () => {
  for (const [base, width] of [
    [daemon.apiUrl, 390],
    [daemon.adminUrl, 1_440],
  ] as const) {
    const { paths } = (await (await fetch(`${base}/docs/reference.json`)).json()) as Reference;
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
    );
    assert.ok(operations.length > 10);
    const { page, faults } = await visit('/docs', base, width, 'dark');
    for (const tag of new Set(operations.map(({ operation }) => operation.tags[0] as string))) {
      const slug = tag
        .toLowerCase()
        .replaceAll(/[^a-z0-9]+/g, '-')
        .replaceAll(/^-|-$/g, '');
      await page.evaluate(`location.hash = 'tag/${slug}'`);
      await page.locator('main h1', { hasText: tag }).waitFor();
      for (const { path, method, operation } of operations.filter(({ operation }) => operation.tags[0] === tag)) {
        const id = `api-1/tag/${slug}/${method}${path}`;
        const text = (await page.evaluate(
          `document.getElementById(${JSON.stringify(id)})?.textContent ?? ''`,
        )) as string;
        const media = [operation.requestBody, ...Object.values(operation.responses)].flatMap((one) =>
          Object.values(one?.content ?? {}),
        );
        const wanted = [
          operation.summary,
          method,
          path.replace(/^\/#/, ''),
          ...Object.keys(operation.responses),
          ...(operation.parameters ?? []).map(({ name }) => name),
          ...media.flatMap(({ schema }) => Object.keys(schema?.properties ?? {})),
          ...media.flatMap(({ example }) =>
            example === undefined ? [] : [typeof example === 'string' ? example : JSON.stringify(example, null, 2)],
          ),
        ];
        assert.deepEqual(
          wanted.filter((part) => !text.includes(part)),
          [],
          id,
        );
      }
      const wide = (await page.evaluate('document.documentElement.scrollWidth')) as number;
      assert.ok(wide <= width, `${tag}: ${wide}`);
      assert.deepEqual(await axeFaults(page), [], tag);
    }
    assert.deepEqual(faults, []);
    await page.close();
  }
});

test('the page allows nothing inline, and nothing from elsewhere', async () => {
  const response = await fetch(`${daemon.apiUrl}/docs`);
  const policy = response.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.ok(!/unsafe|nonce|https?:/.test(policy), policy);
  assert.ok(!/<script(?![^>]* src=)|<style| style=/.test(await response.text()));
});
