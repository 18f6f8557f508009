import { Type } from '@sinclair/typebox';
import { lazy } from '../../lib/lazy.ts';
import { defineRoute, JsonText, json, type Route } from '../plugin.ts';
import { docsPage } from './docs-page.ts';
import type { DocumentOptions } from './document-options.ts';
import { openApiDocument } from './openapi.ts';

/** `/openapi.json`, written once from the declarations of routes and methods, when it is first asked for. */
export function documentRoute(options: DocumentOptions, auth: 'none' | 'admin'): Route {
  const document = lazy(() => new JsonText(JSON.stringify(openApiDocument(options))));
  return defineRoute({
    method: 'GET',
    path: '/openapi.json',
    summary: 'This interface as an OpenAPI 3.1 document',
    tag: 'Documentation',
    auth,
    errors: 'plain',
    replies: { 200: Type.Unknown() },
    handler: () => json(document()),
  });
}

/** `/openapi.json` and `/docs`. */
export function documentRoutes(options: DocumentOptions): readonly Route[] {
  const page = lazy(() => docsPage(options));
  return [
    documentRoute(options, 'none'),
    defineRoute({
      method: 'GET',
      path: '/docs',
      summary: 'This interface as a page to read',
      tag: 'Documentation',
      auth: 'none',
      errors: 'plain',
      replies: { 200: Type.String({ contentMediaType: 'text/html' }) },
      handler: () => ({
        status: 200,
        bytes: page().html,
        contentType: 'text/html; charset=utf-8',
        headers: { 'Content-Security-Policy': page().contentSecurityPolicy, 'Referrer-Policy': 'no-referrer' },
      }),
    }),
  ];
}
