import MiniSearch from 'minisearch';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import { Type } from '../../../src/plugin/plugin.ts';
import { answered, type Calls, count, defineTool, listOf, type ToolAnswer, ToolError } from '../tool.ts';
import { objectsOf } from './answers.ts';

const GUIDE = '/docs/guide';
/** Characters of a section in a list of results. */
const EXCERPT = 300;

interface Section {
  /** `webhooks.html#fields` */
  readonly id: string;
  readonly page: string;
  readonly title: string;
  readonly text: string;
}

interface Index {
  readonly search: MiniSearch<Section>;
  readonly sections: ReadonlyMap<string, Section>;
}

/** Answers with a page, by its name, and the bytes that they were made of. There are some dozens of pages, and no others are found. */
const pages = new Map<string, { readonly source: Uint8Array; readonly answer: ToolAnswer }>();

/** Made by the first search; the pages do not change while the daemon runs. */
let made: Promise<Index> | undefined;

export const docsTool = defineTool({
  name: 'docs_search',
  title: 'Search the documentation',
  description:
    'Searches the guide and reference of this service: how calls work, their fields, limits, errors and prices. With `page`, returns that page as Markdown.',
  isOwnData: true,
  input: Type.Object(
    {
      query: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'words to look for' })),
      page: Type.Optional(
        Type.String({ pattern: '^[a-z][a-z-]*$', maxLength: 64, description: 'name of a page: webhooks' }),
      ),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 20, description: 'sections; default 5' })),
    },
    { additionalProperties: false },
  ),
  data: answered({
    items: listOf('Sections: page, title, text, and the resource with the whole page'),
    markdown: Type.String({ description: 'The page' }),
  }),
  async run({ query, page, limit = 5 }, calls) {
    if (page !== undefined) return pageAnswer(page, await calls.bytes(pathOf(page)));
    if (query === undefined) throw new ToolError('query or page is required');
    made ??= readIndex(calls).catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    const { search, sections } = await made;
    const items = search
      .search(query, { boost: { title: 4, page: 2 }, prefix: true, fuzzy: 0.15, combineWith: 'OR' })
      .slice(0, limit)
      .flatMap(({ id }) => {
        const section = sections.get(String(id));
        return section === undefined ? [] : [resultOf(section)];
      });
    return { summary: `${count(items.length, 'section')} of the documentation, the best first.`, data: { items } };
  },
});

/** While the page does not change, each call gets the same object. */
function pageAnswer(page: string, source: Uint8Array): ToolAnswer {
  const known = pages.get(page);
  if (known !== undefined && (known.source === source || equalBytes(known.source, source))) return known.answer;
  const markdown = Buffer.from(source.buffer, source.byteOffset, source.byteLength).toString();
  const answer = { summary: `The page ${page}.`, data: { markdown }, whole: ['markdown'], isLasting: true } as const;
  pages.set(page, { source, answer });
  return answer;
}

const nameOf = (id: string): string => id.slice(0, id.indexOf('.html'));

const resultOf = ({ id, page, title, text }: Section) => ({
  page: nameOf(id),
  title: page === title ? page : `${page}: ${title}`,
  text: text.slice(0, EXCERPT).trim(),
  resource: `parhelion://docs/${nameOf(id)}`,
});

/** A page of the guide as Markdown. Errors: ToolError 404. */
export async function docsPageOf(calls: Calls, name: string): Promise<string> {
  return await calls.text(pathOf(name));
}

const pathOf = (page: string): string => `${GUIDE}/${encodeURIComponent(page)}.md`;

async function readIndex(calls: Calls): Promise<Index> {
  const found = objectsOf(await calls.get(`${GUIDE}/search.json`)).filter(isSection);
  const search = new MiniSearch<Section>({ fields: ['title', 'page', 'text'] });
  search.addAll(found);
  return { search, sections: new Map(found.map((section) => [section.id, section])) };
}

const isSection = (value: unknown): value is Section & Record<string, unknown> =>
  isPlainObject(value) && ['id', 'page', 'title', 'text'].every((name) => typeof value[name] === 'string');

/** The pages of the guide: name and title. */
export async function pagesOf(calls: Calls): Promise<readonly { readonly name: string; readonly title: string }[]> {
  const found = objectsOf(await calls.get(`${GUIDE}/search.json`)).filter(isSection);
  return found.filter(({ id }) => !id.includes('#')).map(({ id, title }) => ({ name: nameOf(id), title }));
}
