import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { OPERATOR_TOKEN } from '../../conformance/dashboard/harness.ts';
import type { TestDaemon } from '../../helpers/daemon.ts';

const LONG_MS = 60_000;

/** A page that must not break its own rules: an error, a refused resource or a call to elsewhere is a fault. */
export async function openPage(
  browser: Browser,
  { daemon }: { readonly daemon: Pick<TestDaemon, 'adminUrl'> },
  more: BrowserContextOptions = {},
): Promise<{ page: Page; faults: string[] }> {
  const context = await browser.newContext({ ...more, reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG_MS);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // Whether anybody is logged in is asked first, and the answer may be no.
    // A daemon that is away is a part of some tests.
    if (message.type() === 'error' && !/401|ERR_(CONNECTION|INCOMPLETE|EMPTY)/.test(message.text()))
      faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(daemon.adminUrl)) faults.push(`elsewhere: ${request.url()}`);
  });
  await page.goto(`${daemon.adminUrl}/dashboard`);
  return { page, faults };
}

/** After each test: an open page goes on asking for what is new and drawing it. */
export async function closePages(browser: Browser | undefined): Promise<void> {
  for (const context of browser?.contexts() ?? []) await context.close();
}

export async function logIn(page: Page): Promise<void> {
  await page.getByLabel('Operator token').fill(OPERATOR_TOKEN);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}

export async function logInAsOwner(page: Page, project: string, secret: string): Promise<void> {
  await page.getByRole('radio', { name: 'Project' }).check({ force: true });
  await page.getByLabel('Project id').fill(project);
  await page.getByLabel('Dashboard secret').fill(secret);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}

/** Chooses from the menu of a row. */
export async function choose(row: Locator, action: string): Promise<void> {
  await row.getByRole('button', { name: /^Actions for/ }).click();
  await row.getByRole('menuitem', { name: action }).click();
}

/** The secret that a dialog shows once; closes the dialog. */
export async function takeSecret(page: Page): Promise<string> {
  const dialog = page.getByRole('dialog').last();
  const secret = (await dialog.locator('.secret code').textContent()) as string;
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  return secret;
}

export async function goTo(page: Page, name: string): Promise<void> {
  await page.getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
}
