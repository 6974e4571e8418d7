"""A picture of a scenario: pods over time of each driver, what it was admitted, the quota, and what was done when."""

import html

from watch import application, places

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 380, 50, 96, 40
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")


def series(watch, apps):
    """For each application: times, pods and admitted places."""
    found = {app: [(watch.began, 0, 0)] for app in apps}
    for event, pods, workloads in watch.replay():
        app = application(event.object)
        if app in found:
            there = sum(application(pod) == app for pod in pods.values())
            admitted = sum(places(one) for one in workloads.values() if application(one) == app)
            found[app].append((event.at, there, admitted))
    return found


def steps(points, x, y):
    """A line that keeps each value until the next one."""
    path = []
    for at, value in points:
        path.append(f"{'H' if path else 'M'}{x(at):.1f}" + (f" V{y(value):.1f}" if path else f",{y(value):.1f}"))
    return " ".join(path)


def axes(seconds, most, x_of, y):
    step = next(step for step in (5, 10, 20, 30, 60, 120, 300) if seconds / step <= 12)
    yield f'<path d="M{LEFT},{TOP} V{y(0)} H{WIDTH - 10}" fill="none" stroke="#333"/>'
    for second in range(0, int(seconds) + 1, step):
        yield f'<text x="{x_of(second):.0f}" y="{y(0) + 18}" text-anchor="middle">{second} s</text>'
    for value in range(0, most + 1, 5 if most > 12 else 1):
        yield f'<path d="M{LEFT},{y(value):.1f} H{WIDTH - 10}" stroke="#eee"/>'
        yield f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>'


def draw(watch, apps, title):
    lines, end = series(watch, apps), max(event.at for event in watch.events) + 1
    most = max([limit for _, limit in watch.limits] + [1 + max(pods for _, pods, _ in line) for line in lines.values()]) + 1
    def x_of(second):
        return LEFT + second / (end - watch.began) * (WIDTH - LEFT - 10)
    def x(at):
        return x_of(at - watch.began)
    def y(value):
        return HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="16" font-size="14">{html.escape(title)}</text>',
        *axes(end - watch.began, most, x_of, y),
        f'<path d="{steps([*watch.limits, (end, watch.limits[-1][1])], x, y)}" fill="none" stroke="#888" stroke-dasharray="6 3"/>',
    ]
    for number, (at, words) in enumerate(watch.marks):
        out.append(f'<path d="M{x(at):.1f},{TOP - 4} V{y(0)}" stroke="#bbb" stroke-dasharray="2 3"/>')
        out.append(f'<text x="{x(at) + 2:.1f}" y="{46 + number % 4 * 12}" fill="#555">{html.escape(words)}</text>')
    for number, (app, line) in enumerate(lines.items()):
        colour, last = COLOURS[number], line[-1]
        line = [*line, (end, *last[1:])]
        pods = steps([(at, pods) for at, pods, _ in line], x, y)
        admitted = steps([(at, admitted) for at, _, admitted in line], x, y)
        out.append(f'<path d="{admitted}" fill="none" stroke="{colour}" stroke-dasharray="2 2" opacity="0.6"/>')
        out.append(f'<path d="{pods}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{LEFT + number * 200}" y="32" fill="{colour}">{app}: pods; dotted: admitted</text>')
    out.append(f'<text x="{LEFT + len(lines) * 200}" y="32" fill="#888">dashed: the quota</text>')
    return "\n".join([*out, "</svg>\n"])
