// Says what came of a flow: annotations for lines of the result that name a line of a file, the summary of the job, and
// one comment on the pull request, which is found again by its marker and its author. The result is text of strangers:
// it is escaped for the runner, and fenced where it is Markdown.
import { appendFileSync, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const { env } = process;
const most = 10; // errors that GitHub shows of a step
const room = 60000; // characters of a comment, of which GitHub takes 65536

const escape = (text) => text.replace(/%/g, '%25').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
const property = (text) => escape(text).replace(/:/g, '%3A').replace(/,/g, '%2C');

function annotate(result, level) {
  const found = [];
  for (const line of result.split('\n')) {
    const [, file, at, text] = /^\s*([^\s:][^:]*):(\d+):(?:\d+:)?\s*(.*)$/.exec(line) ?? [];
    if (file && !file.startsWith('/') && !file.split('/').includes('..')) {
      const path = join(env.GITHUB_WORKSPACE, file);
      if (existsSync(path) && statSync(path).isFile()) found.push({ file, at, text });
    }
  }
  for (const { file, at, text } of found.slice(0, most)) {
    console.log(`::${level} file=${property(file)},line=${at}::${escape(text || 'see the result of Plait')}`);
  }
  if (found.length > most) console.log(`${found.length - most} more are in the result.`);
}

const means = { 0: 'done', 4: 'it needs a person', 5: 'a limit was reached', 124: 'its time was up' };

function describe(result, code) {
  let fence = '```';
  while (result.includes(fence)) fence += '`';
  const shown = result.length > room ? `${result.slice(0, room)}\n… the rest is in the task` : result;
  const run = `${env.GITHUB_SERVER_URL}/${env.GITHUB_REPOSITORY}/actions/runs/${env.GITHUB_RUN_ID}`;
  return `### Plait: \`${env.FLOW.replace(/[`\r\n]/g, '')}\`: ${means[code] ?? `failed (exit code ${code})`}\n\n` +
    `${fence}text\n${shown.trimEnd()}\n${fence}\n\nThe task is among the artifacts of [the run](${run}).\n`;
}

async function call(method, path, body) {
  const answer = await fetch(env.GITHUB_API_URL + path, {
    method,
    redirect: 'error',
    headers: {
      accept: 'application/vnd.github+json',
      authorization: `Bearer ${env.TOKEN}`,
      'x-github-api-version': '2022-11-28',
      ...(body && { 'content-type': 'application/json' }),
    },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw Object.assign(new Error(`${method} ${path}: ${answer.status}`), { status: answer.status });
  return answer.json();
}

async function comment(number, text) {
  const marker = `<!-- plait:${encodeURIComponent(env.FLOW)} -->`;
  // The token of a job belongs to an app, which may not ask who it is.
  const author = env.TOKEN === env.JOB_TOKEN ? 'github-actions[bot]' : (await call('GET', '/user')).login;
  const all = `/repos/${env.GITHUB_REPOSITORY}/issues`;
  for (let page = 1; ; page++) {
    const some = await call('GET', `${all}/${number}/comments?per_page=100&page=${page}`);
    const mine = some.find(({ body, user }) => user?.login === author && body?.startsWith(marker));
    if (mine) return call('PATCH', `${all}/comments/${mine.id}`, { body: `${marker}\n${text}` });
    if (some.length < 100) return call('POST', `${all}/${number}/comments`, { body: `${marker}\n${text}` });
  }
}

const result = readFileSync(env.RESULT, 'utf8');
const code = Number(env.CODE);
const text = describe(result, code);
annotate(result, code === 0 ? 'warning' : 'error');
appendFileSync(env.GITHUB_STEP_SUMMARY, text);
const event = JSON.parse(readFileSync(env.GITHUB_EVENT_PATH, 'utf8'));
const number = event.pull_request?.number ?? (event.issue?.pull_request && event.issue.number);
if (number && env.TOKEN) {
  try {
    await comment(number, text);
  } catch (err) {
    if (err.status !== 403 && err.status !== 404) throw err;
    console.log(`::notice::There is no comment: the token may not write one, or not ask whose it is (${err.message}). For ` +
      'pull requests of forks that is so.');
  }
}
